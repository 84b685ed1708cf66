package adopt

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestSlots(t *testing.T) {
	pod := func(name, of, node string, ago time.Duration) Busy {
		return Busy{Pod: types.NamespacedName{Namespace: "prod", Name: name}, Workload: of, Node: node, Since: start.Add(-ago)}
	}
	for name, c := range map[string]struct {
		busy  []Busy
		ask   Busy
		again bool
		want  string // part of what it waits for
	}{
		"nobody":                              {nil, pod("a-0", "a", "n", 0), false, ""},
		"its workload":                        {[]Busy{pod("a-0", "a", "m", 0)}, pod("a-1", "a", "n", 0), false, "a-0"},
		"its workload, for long":              {[]Busy{pod("a-0", "a", "m", 100*time.Hour)}, pod("a-1", "a", "n", 0), false, "a-0"},
		"its workload, for long, again":       {[]Busy{pod("a-0", "a", "m", time.Hour)}, pod("a-1", "a", "n", time.Hour), true, ""},
		"its workload, now, again":            {[]Busy{pod("a-0", "a", "m", time.Minute)}, pod("a-1", "a", "n", time.Hour), true, "a-0"},
		"pods of nobody":                      {[]Busy{pod("a", "", "m", 0)}, pod("b", "", "n", 0), false, ""},
		"one on the node":                     {[]Busy{pod("a-0", "a", "n", 0)}, pod("b-0", "b", "n", 0), false, ""},
		"two on the node":                     {[]Busy{pod("a-0", "a", "n", 0), pod("c-0", "c", "n", 0)}, pod("b-0", "b", "n", 0), false, "prod/c-0"},
		"two on the node, one for long":       {[]Busy{pod("a-0", "a", "n", 0), pod("c-0", "c", "n", 10*time.Minute)}, pod("b-0", "b", "n", 0), false, ""},
		"itself, on a node with another":      {[]Busy{pod("a-0", "a", "n", 0), pod("b-0", "b", "n", 0)}, pod("b-0", "b", "n", 0), true, ""},
		"three elsewhere":                     {[]Busy{pod("a-0", "a", "1", 0), pod("c-0", "c", "2", 0), pod("d-0", "d", "3", 0)}, pod("b-0", "b", "n", 0), false, "3 pods"},
		"three elsewhere, again":              {[]Busy{pod("a-0", "a", "1", 0), pod("c-0", "c", "2", 0), pod("d-0", "d", "3", 0)}, pod("b-0", "b", "n", 0), true, "3 pods"},
		"three elsewhere, a broken one":       {[]Busy{pod("a-0", "a", "1", 0), pod("c-0", "c", "2", 0), pod("d-0", "d", "3", time.Hour)}, pod("b-0", "b", "n", 0), false, ""},
		"of its name, in another namespace":   {[]Busy{{Pod: types.NamespacedName{Namespace: "test", Name: "a-0"}, Workload: "test/a", Node: "m", Since: start}}, pod("a-0", "prod/a", "n", 0), false, ""},
		"two that wait for each other, again": {[]Busy{pod("a-0", "a", "m", time.Hour), pod("a-1", "a", "m", time.Hour)}, pod("a-0", "a", "m", 0), true, ""},
	} {
		s := &Slots{PerNode: 2, InAll: 3, Patience: 10 * time.Minute, Now: start, Busy: c.busy}
		waits, ok := s.Take(c.ask, c.again)
		if ok != (c.want == "") || !strings.Contains(waits, c.want) {
			t.Errorf("%s: %v, %q", name, ok, waits)
		}
		if _, twice := s.Take(c.ask, c.again); ok && !twice {
			t.Errorf("%s: taken once more, it is refused", name)
		}
	}
}

// A place that is given back is free, and what was before counts.
func TestSlotsGive(t *testing.T) {
	s := &Slots{PerNode: 1, InAll: 1, Patience: time.Minute, Now: start}
	a, b := Busy{Pod: types.NamespacedName{Name: "a"}, Node: "n"}, Busy{Pod: types.NamespacedName{Name: "b"}, Node: "n"}
	for _, pod := range []Busy{a, b} {
		if _, ok := s.Take(pod, false); !ok {
			t.Fatalf("%v is not free", pod)
		}
		s.Give(pod.Pod, nil)
	}
	before := Busy{Pod: a.Pod, Node: "n", Since: start}
	s.Take(a, true)
	s.Give(a.Pod, &before)
	if _, ok := s.Take(b, false); ok || len(s.Busy) != 1 {
		t.Errorf("busy: %v", s.Busy)
	}
}
