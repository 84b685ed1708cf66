package annotated

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/rpo"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pod is an injected one of a StatefulSet, an hour old, as the cache keeps it.
func pod(name, set string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID("u-" + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		Labels: map[string]string{api.LabelInjected: "cassandra"}, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set, UID: types.UID("u-set-" + set), Controller: new(true)}}}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

func carrying(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func when(cron string) func(*corev1.Pod) { return carrying(api.AnnotationBackupSchedule, cron) }

func retain(n string) func(*corev1.Pod) { return carrying(api.AnnotationRetain, n) }

func aged(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-d)) }
}

func label(key, value string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[key] = value } }

func madeBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
}

func alone(p *corev1.Pod) { p.OwnerReferences = nil }

func workloads(pods ...*corev1.Pod) []workload {
	var list []corev1.Pod
	for _, p := range pods {
		list = append(list, *p)
	}
	return workloadsOf(list)
}

func TestWishOf(t *testing.T) {
	const night, noon = "0 3 * * *", "0 12 * * *"
	both := map[string]string{api.AnnotationBackupSchedule: night, api.AnnotationRetain: "7"}
	for name, c := range map[string]struct {
		pods      []*corev1.Pod
		namespace map[string]string
		want      string // schedule, retain, wide; or the reason of the refusal
		text      string // a part of what is told
	}{
		"nothing":                   {pods: []*corev1.Pod{pod("db-0", "db")}, want: "nothing"},
		"retain alone":              {pods: []*corev1.Pod{pod("db-0", "db", retain("7"))}, want: "nothing"},
		"namespace":                 {pods: []*corev1.Pod{pod("db-0", "db")}, namespace: both, want: "0 3 * * * 7 wide"},
		"pod":                       {pods: []*corev1.Pod{pod("db-0", "db", when(noon))}, want: "0 12 * * * 0"},
		"pod before namespace":      {pods: []*corev1.Pod{pod("db-0", "db", when(noon))}, namespace: both, want: "0 12 * * * 7"},
		"pod's retain alone":        {pods: []*corev1.Pod{pod("db-0", "db", retain("3"))}, namespace: both, want: "0 3 * * * 3 wide"},
		"word":                      {pods: []*corev1.Pod{pod("db-0", "db", when("@daily"))}, want: "@daily 0"},
		"the oldest counts":         {pods: []*corev1.Pod{pod("db-0", "db", when(noon)), pod("db-1", "db", when(night), aged(2*time.Hour))}, want: "0 3 * * * 0", text: `"0 3 * * *" on pod db-1 and "0 12 * * *" on pod db-0`},
		"of one age, the first":     {pods: []*corev1.Pod{pod("db-1", "db", when(noon)), pod("db-0", "db", when(night))}, want: "0 3 * * * 0", text: "what the oldest says counts"},
		"some say nothing":          {pods: []*corev1.Pod{pod("db-0", "db"), pod("db-1", "db", when(noon))}, want: "0 12 * * * 0"},
		"retains disagree":          {pods: []*corev1.Pod{pod("db-0", "db", when(noon), retain("3")), pod("db-1", "db", when(noon), retain("4"))}, want: "0 12 * * * 3", text: `retain is "3" on pod db-0 and "4"`},
		"bad schedule":              {pods: []*corev1.Pod{pod("db-0", "db", when("nightly"))}, namespace: both, want: eventBad, text: `backup-schedule of pod db-0 is "nightly": schedule "nightly" has 1 fields`},
		"bad schedule of namespace": {pods: []*corev1.Pod{pod("db-0", "db")}, namespace: map[string]string{api.AnnotationBackupSchedule: "0 25 * * *"}, want: eventBad, text: "of the namespace"},
		"never":                     {pods: []*corev1.Pod{pod("db-0", "db", when("0 0 31 2 *"))}, want: eventBad, text: "never comes"},
		"time zone within":          {pods: []*corev1.Pod{pod("db-0", "db", when("TZ=Europe/Berlin 0 3 * * *"))}, want: eventBad},
		"bad retain alone":          {pods: []*corev1.Pod{pod("db-0", "db", retain("7d"))}, want: eventBad, text: "retain of pod db-0"},
		"both bad":                  {pods: []*corev1.Pod{pod("db-0", "db", when("0"), retain("7d"))}, want: eventBad + " and more", text: "backup-schedule of pod db-0"},
		"bad retain":                {pods: []*corev1.Pod{pod("db-0", "db", when(noon), retain("all"))}, want: eventBad, text: `retain of pod db-0 is "all": it takes how many`},
		"cloudburst":                {pods: []*corev1.Pod{pod("a-0", "a", label(api.LabelInjected, "cloudburst"), when(noon))}, want: eventNotSupported, text: "kind cloudburst"},
		"anna's routing":            {pods: []*corev1.Pod{pod("a-0", "a", label(api.LabelInjected, "anna"), carrying(kvs.AnnotationRole, "routing"), when(noon))}, want: eventNotSupported, text: "kind anna"},
		"that, of the namespace":    {pods: []*corev1.Pod{pod("a-0", "a", label(api.LabelInjected, "anna"), carrying(kvs.AnnotationRole, "routing"))}, namespace: both, want: "nothing"},
		"anna":                      {pods: []*corev1.Pod{pod("a-0", "a", label(api.LabelInjected, "anna"), carrying(kvs.AnnotationRole, "memory"), when(noon))}, want: "0 12 * * * 0"},
		"a Deployment":              {pods: []*corev1.Pod{pod("db-x", "db", madeBy("ReplicaSet"))}, namespace: both, want: eventFleeting, text: "make a BackupSchedule with a selector"},
		"nobody made it":            {pods: []*corev1.Pod{pod("db", "", alone, when(noon))}, want: "0 12 * * * 0"},
	} {
		w, asks := wishOf(workloads(c.pods...), c.namespace)
		got, text := strings.TrimSpace(fmt.Sprintf("%s %d %s", w.schedule, w.retain, map[bool]string{true: "wide"}[w.wide])), w.disagree
		switch {
		case len(w.bad) > 0:
			got, text = eventBad, w.bad[0].text
			if len(w.bad) > 1 {
				got += " and more"
			}
		case !asks:
			got = "nothing"
		case w.refused != nil:
			got, text = w.refused.reason, w.refused.text
		}
		if got != c.want || !strings.Contains(text, c.text) || c.text == "" && text != "" && w.refused == nil && len(w.bad) == 0 {
			t.Errorf("%s: %s, %q; want %s, %q", name, got, text, c.want, c.text)
		}
	}
}

func TestClusters(t *testing.T) {
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	all := workloads(pod("r2-0", "ring-r2"), pod("r1-1", "ring-r1"), pod("r1-0", "ring-r1", aged(2*time.Hour)), pod("x-0", "x"), pod("gone-0", "gone", ended), pod("y-0", "y"))
	var owners []string
	for _, w := range all {
		owners = append(owners, fmt.Sprintf("%s %d", w.owner.Name, len(w.pods)))
	}
	if want := []string{"ring-r1 2", "ring-r2 1", "x 1", "y 1"}; !slices.Equal(owners, want) {
		t.Errorf("workloads %q", owners)
	}
	if all[0].pods[0].Name != "r1-0" {
		t.Errorf("%s is not the oldest", all[0].pods[0].Name)
	}
	prefixes := map[rpo.Owner]string{all[0].owner: "prod-ring", all[1].owner: "prod-ring", all[2].owner: "prod-x"}
	var got []string
	for _, c := range clustersOf(all, prefixes) {
		got = append(got, fmt.Sprintf("%s %d", c.name(), len(c)))
	}
	if want := []string{"ring 2", "x 1", "y 1"}; !slices.Equal(got, want) {
		t.Errorf("clusters %q", got)
	}
	if got := clustersOf(all, map[rpo.Owner]string{all[0].owner: "", all[1].owner: ""}); len(got) != 4 {
		t.Errorf("those without a prefix are %d clusters", len(got))
	}
	for want, names := range map[string][2]string{"demo-dc1": {"demo-dc1-r1-sts", "demo-dc1-r2-sts"}, "ring": {"ring-a", "ring"}, "a": {"a", "b"}, "db": {"db-10", "db-11"}} {
		c := cluster{{owner: rpo.Owner{Name: names[0]}}, {owner: rpo.Owner{Name: names[1]}}}
		if got := c.name(); got != want {
			t.Errorf("%v is called %s, want %s", names, got, want)
		}
	}
}

func TestSelectorOf(t *testing.T) {
	r1 := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, "r1", append([]func(*corev1.Pod){label("app", "db"), label("rack", "r1"), label("statefulset.kubernetes.io/pod-name", name)}, change...)...)
	}
	r2 := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, "r2", append([]func(*corev1.Pod){label("app", "db"), label("rack", "r2")}, change...)...)
	}
	bare := func(p *corev1.Pod) { delete(p.Labels, api.LabelInjected) }
	ring := label("cassandra.datastax.com/cluster", "ring")
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"one label":                {[]*corev1.Pod{r1("a"), r2("b")}, "app=db"},
		"that says cluster":        {[]*corev1.Pod{r1("a", ring), r2("b", ring)}, "cassandra.datastax.com/cluster=ring"},
		"one of which others have": {[]*corev1.Pod{r1("a", ring), r2("b", ring), pod("web", "web", bare, ring)}, "app=db"},
		"two together":             {[]*corev1.Pod{r1("a", ring), r2("b", ring), pod("web", "web", bare, ring), pod("web2", "web", bare, label("app", "db"))}, "app=db,cassandra.datastax.com/cluster=ring"},
		"none":                     {[]*corev1.Pod{r1("a"), r2("b"), pod("web", "web", bare, label("app", "db"))}, ""},
		"no label of one pod's":    {[]*corev1.Pod{pod("a", "r1", label("statefulset.kubernetes.io/pod-name", "a")), pod("web", "web", bare)}, ""},
		"none of ours":             {[]*corev1.Pod{pod("a", "r1"), pod("b", "r2")}, ""},
		"one without sidecar":      {[]*corev1.Pod{r1("a"), r2("b"), r2("c", bare, label("app", "other"))}, ""},
	} {
		var injected, all = []*corev1.Pod{}, []metav1.PartialObjectMetadata{}
		for _, p := range c.pods {
			all = append(all, metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta})
			if p.Labels[api.LabelInjected] != "" {
				injected = append(injected, p)
			}
		}
		got := ""
		if s := selectorOf(workloads(injected...), nil, all); s != nil {
			got = metav1.FormatLabelSelector(s)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestNameOf(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, c := range []struct{ name, apart, want string }{
		{"db", "", "db"}, {strings.Repeat("x", 47), "", strings.Repeat("x", 47)}, {long, "", strings.Repeat("x", 38) + "-"}, {"db", "PetSet", "db-"},
		{strings.Repeat("x", 37) + "-" + long, "", strings.Repeat("x", 37) + "-"},
	} {
		got := nameOf(c.name, c.apart)
		if !strings.HasPrefix(got, c.want) || len(got) > maxName || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("%s: %s (%d)", c.name, got, len(got))
		}
	}
	if nameOf(long, "") == nameOf(long+"y", "") || nameOf("db", "A") == nameOf("db", "B") {
		t.Error("two have one name")
	}
}

func TestRoomForJitter(t *testing.T) {
	for cron, want := range map[string]bool{"0 3 * * *": true, "@hourly": true, "*/30 * * * *": true, "*/20 * * * *": false, "* * * * *": false, "0,10 3 * * *": false} {
		if got := roomForJitter(cron); got != want {
			t.Errorf("%s: %v", cron, got)
		}
	}
}

// What follows from the annotations is kept up to date, and the rest is the user's.
func TestChanged(t *testing.T) {
	pods := &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "db"}}
	made := build("prod", "db", pods, wish{schedule: "0 3 * * *", retain: 7, wide: true})
	if made.Spec.Jitter.Duration != jitterWide || *made.Spec.Retention.KeepLast != 7 || !isAnnotated(made) || made.Spec.Template.Spec.DeletionPolicy != "" {
		t.Errorf("made %+v", made)
	}
	made.Spec.Retention.Incomplete = "7d" // as the API server defaults it
	made.Spec.Suspend, made.Spec.TimeZone = true, "Europe/Berlin"
	if _, differs := changed(made, pods, wish{schedule: "0 3 * * *", retain: 7}); differs {
		t.Error("it is changed for nothing")
	}
	made.Spec.Template.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "db"}}
	if _, differs := changed(made, pods, wish{schedule: "0 3 * * *", retain: 7}); differs {
		t.Error("it is changed for a default")
	}
	to, differs := changed(made, pods, wish{schedule: "0 4 * * *", retain: 8})
	if !differs || to.Spec.Schedule != "0 4 * * *" || *to.Spec.Retention.KeepLast != 8 || !to.Spec.Suspend || to.Spec.TimeZone == "" || to.Spec.Retention.Incomplete != "7d" {
		t.Errorf("changed to %+v", to.Spec)
	}
	if *made.Spec.Retention.KeepLast != 7 {
		t.Error("what the cache holds was changed")
	}
	if to, differs = changed(made, pods, wish{schedule: "0 3 * * *"}); !differs || to.Spec.Retention != nil {
		t.Errorf("retention stays: %+v", to.Spec.Retention)
	}
	made.Spec.Retention.KeepDaily = new(int32(3))
	if to, differs = changed(made, pods, wish{schedule: "0 3 * * *"}); !differs || to.Spec.Retention.KeepLast != nil || *to.Spec.Retention.KeepDaily != 3 {
		t.Errorf("retention: %+v", to.Spec.Retention)
	}
	one := &api.BackupPods{Names: []string{"db-0"}}
	if to, differs = changed(made, one, wish{schedule: "0 3 * * *"}); !differs || !samePods(to.Spec.Template.Spec.Pods, one) {
		t.Errorf("pods: %+v", to.Spec.Template.Spec.Pods)
	}
}
