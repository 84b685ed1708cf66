package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/cluster"
)

const (
	databases = 10
	// healLimit is what pods may take longer to be Ready than without us.
	healLimit = time.Minute
	// nowhere is a registry that serves nothing.
	nowhere = "stategraft.invalid/not-there"
)

// TestRegistryWithoutUs: databases whose pods are made anew while our images
// cannot be pulled are Ready soon after they serve, and not restarted.
func TestRegistryWithoutUs(t *testing.T) {
	e, ctx := start(t, 20*time.Minute)
	step := stepper(t)
	step("installed", e.Install(ctx, "certificates.mode=self-signed"))
	_, err := e.Kubectl(ctx, nil, "create", "namespace", "plain")
	step("without us", errors.Join(err, e.databases(ctx, "plain")))
	plain, err := e.recreate(ctx, "plain")
	step("made anew, without us", err)

	step("namespace", e.Namespace(ctx, "prod", nil))
	step("injected", e.awaitInjection(ctx, "prod"))
	step("with us", e.databases(ctx, "prod"))
	step("no images", e.Install(ctx, "certificates.mode=self-signed",
		"config.annotations.agent-image="+nowhere+":1", "config.annotations.medusa-image="+nowhere+":2"))
	step("the webhook names them", e.awaitImage(ctx, "prod", nowhere))
	took, err := e.recreate(ctx, "prod")
	step("made anew", err)
	pods, err := e.Client.CoreV1().Pods("prod").List(ctx, metav1.ListOptions{})
	step("pods", err)
	without := 0
	for _, pod := range pods.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == "cassandra" && s.RestartCount > 0 {
				t.Errorf("the database of %s was restarted", pod.Name)
			}
		}
		if !injected(&pod) {
			without++
		}
	}
	longer := took - plain
	named, err := e.named(ctx, pods.Items)
	step("check", err)
	figure(t, "%d pods Ready after %s, without us %s: %s later; %d healed in place, %d admitted without us; check names %d",
		len(pods.Items), seconds(took), seconds(plain), seconds(longer), len(pods.Items)-without, without, named)
	if named != databases {
		t.Errorf("check names %d of %d pods", named, databases)
	}
	if judged() && longer > healLimit {
		t.Errorf("Ready %s later than without us, at most %s is allowed", longer, healLimit)
	}
}

// databases makes the StatefulSet and waits until it is ready.
func (e *Env) databases(ctx context.Context, namespace string) error {
	text, err := embedded.ReadFile("manifests/database.yaml")
	if err != nil {
		return err
	}
	filled := strings.NewReplacer("@REPLICAS@", fmt.Sprint(databases), "@IMAGE@", cluster.BusyboxImage).Replace(string(text))
	if _, err := e.Kubectl(ctx, strings.NewReader(filled), "-n", namespace, "apply", "-f", "-"); err != nil {
		return err
	}
	_, err = e.Kubectl(ctx, nil, "-n", namespace, "rollout", "status", "statefulset/cassandra", "--timeout=180s")
	return err
}

// recreate deletes all pods of the StatefulSet and answers how long it took
// until their successors were Ready.
func (e *Env) recreate(ctx context.Context, namespace string) (time.Duration, error) {
	pods := e.Client.CoreV1().Pods(namespace)
	before, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	old := map[string]bool{}
	for _, pod := range before.Items {
		old[string(pod.UID)] = true
	}
	began := time.Now()
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, err
	}
	err = e.await(ctx, 5*time.Minute, "the pods to be Ready", func() (bool, error) {
		now, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := 0
		for _, pod := range now.Items {
			if !old[string(pod.UID)] && isReady(&pod) {
				ready++
			}
		}
		return ready == databases, nil
	})
	return time.Since(began), err
}

// awaitImage waits until injected pods get an image.
func (e *Env) awaitImage(ctx context.Context, namespace, image string) error {
	p, err := pod("cassandra-probe")
	if err != nil {
		return err
	}
	return e.await(ctx, 2*time.Minute, "the webhook to follow its configuration", func() (bool, error) {
		made, err := e.Client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		for _, c := range made.Spec.Containers {
			if c.Name == patches.ContainerMedusa {
				return strings.HasPrefix(c.Image, image), nil
			}
		}
		return false, nil
	})
}

// named is how many of the pods `kubectl stategraft check` names.
func (e *Env) named(ctx context.Context, pods []corev1.Pod) (int, error) {
	out, err := e.CLI(ctx, "check", "-o", "json")
	var status *exec.ExitError
	if err != nil && !(errors.As(err, &status) && status.ExitCode() == 1) {
		return 0, err
	}
	var report struct {
		Findings []struct{ Status, Subject, Message string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		return 0, fmt.Errorf("reading what check printed: %w: %s", err, out)
	}
	named := 0
	for _, pod := range pods {
		for _, f := range report.Findings {
			if (f.Status == "warn" || f.Status == "fail") && strings.Contains(f.Subject, pod.Namespace+"/"+pod.Name) {
				named++
				break
			}
		}
	}
	return named, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
