package coverage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func dump(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// scrape gives the series of a state, sorted, one a line.
func scrape(t *testing.T, s *state) string {
	t.Helper()
	c := &collector{}
	c.state.Store(s)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			line := strings.TrimPrefix(family.GetName(), "stategraft_")
			for _, pair := range m.GetLabel() {
				line += " " + pair.GetValue()
			}
			lines = append(lines, fmt.Sprintf("%s %v", line, m.GetGauge().GetValue()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestMetrics has no series of what is gone, and nothing of pods in a replica
// that stands by.
func TestMetrics(t *testing.T) {
	pod := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	s := newState()
	s.put(pod("a", "one-0"), record{reason: "bad-annotation"})
	s.put(pod("a", "one-1"), record{reason: "bad-annotation"})
	s.put(pod("a", "two-0"), record{reason: ReasonWebhookWasDown})
	s.put(pod("b", "one-0"), record{reason: ReasonCreatedBefore})
	s.put(pod("c", "nginx"), record{})
	s.count("cassandra", 3)
	if got, want := scrape(t, s), ""; got != want {
		t.Errorf("standing by:\n%s\nwant\n%s", got, want)
	}
	s.lead()
	const injected = "injected_pods anna 0\ninjected_pods cassandra 3\ninjected_pods cloudburst 0"
	want := injected + "\npods_without_sidecar a bad-annotation 2\npods_without_sidecar a webhook-was-down 1\npods_without_sidecar b created-before 1"
	if got := scrape(t, s); got != want {
		t.Errorf("leading:\n%s\nwant\n%s", got, want)
	}
	for _, p := range []types.NamespacedName{pod("a", "one-0"), pod("a", "one-1"), pod("a", "two-0"), pod("b", "one-0")} {
		s.forget(p)
	}
	if got := scrape(t, s); got != injected {
		t.Errorf("all gone:\n%s\nwant\n%s", got, injected)
	}
	if got := scrape(t, nil); got != "" {
		t.Errorf("not this process: %s", got)
	}
}

// handlers is an informer that only keeps what is to be called.
type handlers struct {
	cache.Informer
	toolscache.ResourceEventHandler
}

func (h *handlers) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	h.ResourceEventHandler = handler
	return nil, nil
}

// TestCountInjected follows the label of pods, whoever wrote it.
func TestCountInjected(t *testing.T) {
	s, h := newState(), &handlers{}
	if err := countInjected(h, s); err != nil {
		t.Fatal(err)
	}
	pod := func(kind string) *metav1.PartialObjectMetadata {
		p := metadata("Pod")
		p.Labels = map[string]string{api.LabelInjected: kind}
		return p
	}
	h.OnAdd(pod("cassandra"), true)
	h.OnAdd(pod("cassandra"), false)
	h.OnAdd(pod("anna"), false)
	h.OnAdd(pod("mine"), false) // a metric has no label that users choose
	h.OnUpdate(pod("cassandra"), pod("cassandra"))
	h.OnUpdate(pod("anna"), pod("cloudburst"))
	h.OnDelete(pod("mine"))
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "x", Obj: pod("cassandra")})
	if got, want := fmt.Sprint(s.injected), "map[anna:0 cassandra:1 cloudburst:1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
