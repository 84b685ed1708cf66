package adopt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/adopt/simulated"
)

// passed are the pods of the corpus that would be injected and are not adopted, and why.
var passed = map[string]string{
	"anna-routing": "no-data", "anna-monitoring": "no-data", "cloudburst-executor": "no-data", "cloudburst-scheduler": "no-data",
	"elassandra-operator": "sub-path",
}

// Pods as other projects' charts and operators make them: all are adopted that would be
// injected and hold data, the API server takes the containers, and no other pod gets any.
func TestCorpus(t *testing.T) {
	if !full() {
		t.Skipf("the containers of each are looked at elsewhere: set %s=full", ScaleEnv)
	}
	t.Parallel()
	ctx, e := start(t, 15*time.Minute)
	const namespace = "corpus"
	all, err := rows(e.Root)
	if err != nil {
		t.Fatal(err)
	}
	not := map[string]string{} // by workload, why
	var wanted []string
	for _, r := range all {
		switch {
		case r.decision != "inject":
			not[r.name] = r.reason
		case passed[r.name] != "":
			not[r.name] = passed[r.name]
		default:
			wanted = append(wanted, r.name+"-0")
		}
	}
	w, stop, err := e.Witness(ctx, namespace, usual(), nil, func(pod *corev1.Pod) string { return not[pod.Labels["stategraft-test"]] })
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	if town, err = e.Found(ctx, namespace, nil, simulated.Played{Node: spread}); err != nil {
		t.Fatal(err)
	}
	if err := town.Configure(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		set, err := r.set(e.Root)
		if err != nil {
			t.Fatal(err)
		}
		if r.reason == "job-owned" || r.reason == "no-stable-identity" || set.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways && set.Spec.Template.Spec.RestartPolicy != "" {
			continue // no StatefulSet's
		}
		if err := town.account(ctx, set.Spec.Template.Spec.ServiceAccountName); err != nil {
			t.Fatal(err)
		}
		if err := town.Run(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	var left []string
	err = await(ctx, 3*time.Minute, "the pods of the corpus to be adopted", func(ctx context.Context) (bool, error) {
		pods, err := town.Pods(ctx)
		if err != nil {
			return false, err
		}
		left = nil
		for i := range pods {
			if name := pods[i].Labels["stategraft-test"]; not[name] == "" && pods[i].Labels[api.LabelInjected] == "" {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			return false, fmt.Errorf("not adopted: %s", strings.Join(left, ", "))
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
	figure(t, "%d of %d kinds of pods of other projects adopted, the others not", len(wanted)-len(left), town.pods)
}
