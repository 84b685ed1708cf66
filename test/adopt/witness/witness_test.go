package witness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/patches"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var limits = Limits{PerWorkload: 1, PerNode: 2, InAll: 3, PerDay: 3, Day: 24 * time.Hour, Counts: 10 * time.Minute,
	Backoff: []time.Duration{30 * time.Second, 2 * time.Minute}, Off: 5 * time.Second}

// stage plays pods before a witness.
type stage struct {
	w    *Witness
	now  time.Time
	off  time.Duration // of the time that containers say they were added at
	pods map[string]*corev1.Pod
}

func newStage(l Limits, allows func(*corev1.Pod) string) *stage {
	return &stage{w: New(l, allows), now: began, pods: map[string]*corev1.Pod{}}
}

// pod makes one of a workload on a node.
func (s *stage) pod(name, workload, node string) {
	s.pods[name] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: workload, Controller: new(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "cassandra"}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "cassandra"}}},
	}
	s.change(name, func(*corev1.Pod) {})
}

// change has the witness see a new version of a pod.
func (s *stage) change(name string, change func(*corev1.Pod)) {
	p := s.pods[name].DeepCopy()
	change(p)
	s.pods[name] = p
	s.w.Saw(p, false, s.now)
}

// add adds a round: the agent, and containers of roles.
func (s *stage) add(name string, roles ...patches.Role) {
	s.change(name, func(p *corev1.Pod) {
		for i, role := range append([]patches.Role{patches.RoleAgent}, roles...) {
			number := fmt.Sprint(len(p.Spec.EphemeralContainers) + 1)
			env := []corev1.EnvVar{{Name: patches.EnvAdopted, Value: number}, {Name: patches.EnvAdoptedAt, Value: s.now.Add(s.off).Format(time.RFC3339)}}
			if i == 0 {
				env = append(env, corev1.EnvVar{Name: patches.EnvAdoptedTakers, Value: "somebody"})
			}
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: role.Container() + "-" + number, Env: env}})
		}
	})
}

// up has all containers of a pod run that have not ended, and the agents end.
func (s *stage) up(name string) {
	s.change(name, func(p *corev1.Pod) {
		for _, c := range p.Spec.EphemeralContainers {
			if strings.HasPrefix(c.Name, "stategraft-agent") {
				s.set(p, c.Name, 0)
			} else if !s.ended(p, c.Name) {
				s.set(p, c.Name, -1)
			}
		}
	})
}

// set has a container of a pod end with a status, or run where that is negative.
func (s *stage) set(p *corev1.Pod, container string, exit int32) {
	status := corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if exit >= 0 {
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, FinishedAt: metav1.NewTime(s.now)}}
	}
	for i := range p.Status.EphemeralContainerStatuses {
		if p.Status.EphemeralContainerStatuses[i].Name == container {
			p.Status.EphemeralContainerStatuses[i] = status
			return
		}
	}
	p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, status)
}

func (s *stage) ended(p *corev1.Pod, container string) bool {
	for _, status := range p.Status.EphemeralContainerStatuses {
		if status.Name == container {
			return status.State.Terminated != nil
		}
	}
	return false
}

func (s *stage) kill(name, container string) {
	s.change(name, func(p *corev1.Pod) { s.set(p, container, 137) })
}

func (s *stage) later(d time.Duration) { s.now = s.now.Add(d) }

// What is done right gives no fault.
func TestNothingWrong(t *testing.T) {
	s := newStage(limits, nil)
	s.pod("a-0", "a", "n1")
	s.pod("a-1", "a", "n1")
	s.pod("b-0", "b", "n1")
	s.pod("c-0", "c", "n2")
	s.add("a-0", patches.RoleSnapshot, patches.RoleMedusa)
	s.add("b-0", patches.RoleMedusa)
	s.add("c-0", patches.RoleMedusa)
	s.up("a-0")
	s.add("a-1", patches.RoleMedusa)
	s.up("a-1")
	s.later(time.Hour)
	s.kill("a-0", "stategraft-medusa-3")
	s.later(31 * time.Second)
	s.add("a-0", patches.RoleMedusa)
	s.up("a-0")
	s.w.Goes("a-1")
	s.change("a-1", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.now} })
	s.w.Saw(s.pods["a-1"], true, s.now)
	if faults := s.w.Faults(); len(faults) > 0 {
		t.Errorf("faults:\n%s", strings.Join(faults, "\n"))
	}
	if got, want := s.w.Most(), (Most{1, 2, 3}); got != want {
		t.Errorf("at most %+v at once, want %+v", got, want)
	}
	if got, want := s.w.Of("ns"), (Tally{Pods: 4, Up: 2, Rounds: 5, Containers: 11, MostRounds: 2, MostContainers: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.w.Rounds("ns", "a-0"); len(got) != 2 || got[1].Sub(got[0]) != time.Hour+31*time.Second {
		t.Errorf("rounds of a-0: %v", got)
	}
}

// Each thing that is done wrong is told.
func TestFaults(t *testing.T) {
	medusa := func(s *stage, names ...string) {
		for _, name := range names {
			s.add(name, patches.RoleMedusa)
		}
	}
	killed := func(s *stage) { // one whose Medusa was killed
		s.pod("a-0", "a", "n1")
		s.add("a-0", patches.RoleSnapshot, patches.RoleMedusa)
		s.up("a-0")
		s.kill("a-0", "stategraft-medusa-3")
	}
	for _, test := range []struct {
		name, want string
		does       func(*stage)
	}{
		{"two of a workload", "2 pods of the workload ns/StatefulSet/a", func(s *stage) {
			s.pod("a-0", "a", "n1")
			s.pod("a-1", "a", "n2")
			medusa(s, "a-0", "a-1")
		}},
		{"two of a workload, much later", "2 pods of the workload ns/StatefulSet/a", func(s *stage) {
			s.pod("a-0", "a", "n1")
			s.pod("a-1", "a", "n2")
			medusa(s, "a-0")
			s.later(time.Hour)
			medusa(s, "a-1")
		}},
		{"three on a node", "3 pods of the node n1", func(s *stage) {
			for _, name := range []string{"a", "b", "c"} {
				s.pod(name, name, "n1")
			}
			medusa(s, "a", "b", "c")
		}},
		{"four in all", "4 pods of the cluster", func(s *stage) {
			for _, name := range []string{"a", "b", "c", "d"} {
				s.pod(name, name, "n"+name)
			}
			medusa(s, "a", "b", "c", "d")
		}},
		{"the same round twice", "was not due", func(s *stage) {
			s.pod("a", "a", "n1")
			medusa(s, "a", "a")
		}},
		{"a round though all is up", "was not due", func(s *stage) {
			s.pod("a", "a", "n1")
			medusa(s, "a")
			s.up("a")
			s.later(time.Hour)
			medusa(s, "a")
		}},
		{"beside one that runs", "container stategraft-snapshot-5 was added beside one of its role", func(s *stage) {
			killed(s)
			s.later(time.Minute)
			s.add("a-0", patches.RoleSnapshot, patches.RoleMedusa)
		}},
		{"too early", "came 20s after a container had ended, at least 30s", func(s *stage) {
			killed(s)
			s.later(20 * time.Second)
			medusa(s, "a-0")
		}},
		{"too early the second time", "at least 2m0s", func(s *stage) {
			killed(s)
			s.later(30 * time.Second)
			medusa(s, "a-0")
			s.up("a-0")
			s.kill("a-0", "stategraft-medusa-5")
			s.later(time.Minute)
			medusa(s, "a-0")
		}},
		{"too often", "4 rounds within 24h0m0s", func(s *stage) {
			killed(s)
			for n := range 3 {
				s.later(time.Hour)
				medusa(s, "a-0")
				s.up("a-0")
				s.kill("a-0", fmt.Sprintf("stategraft-medusa-%d", 5+2*n))
			}
		}},
		{"a number left out", "comes after number 0", func(s *stage) {
			s.pod("a", "a", "n1")
			s.change("a", func(p *corev1.Pod) {
				p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "stategraft-agent-2",
					Env: []corev1.EnvVar{{Name: patches.EnvAdopted, Value: "2"}, {Name: patches.EnvAdoptedAt, Value: s.now.Format(time.RFC3339)}}}}}
			})
		}},
		{"one that was changed", "changed or removed", func(s *stage) {
			killed(s)
			s.change("a-0", func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Image = "other" })
		}},
		{"a time that is wrong", "which is 1h0m0s off", func(s *stage) {
			s.pod("a", "a", "n1")
			s.off = -time.Hour
			medusa(s, "a")
		}},
		{"one that must get none", "opted out", func(s *stage) {
			s.pod("forbidden", "a", "n1")
			medusa(s, "forbidden")
		}},
		{"the database's image", "its containers were changed", func(s *stage) {
			killed(s)
			s.change("a-0", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" })
		}},
		{"the database started again", "a container was started again", func(s *stage) {
			killed(s)
			s.change("a-0", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 })
		}},
		{"no longer ready", "no longer ready", func(s *stage) {
			killed(s)
			s.change("a-0", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
		}},
		{"deleted", "was deleted", func(s *stage) {
			killed(s)
			s.change("a-0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.now} })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(limits, func(p *corev1.Pod) string {
				if p.Name == "forbidden" {
					return "opted out"
				}
				return ""
			})
			test.does(s)
			faults := s.w.Faults()
			if len(faults) != 1 || !strings.Contains(faults[0], test.want) {
				t.Errorf("faults %q, want one with %q", faults, test.want)
			}
		})
	}
}

// What has changed may be brought by one round each, and what does not come up counts
// towards its node and in all for a while only.
func TestAllowed(t *testing.T) {
	s := newStage(limits, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.pod(name, name, "n1")
	}
	s.add("a", patches.RoleMedusa)
	s.add("b", patches.RoleMedusa)
	s.later(10 * time.Minute)
	s.add("c", patches.RoleMedusa)
	s.up("c")
	s.w.Renews("ns")
	s.add("c", patches.RoleMedusa)
	if faults := s.w.Faults(); len(faults) > 0 {
		t.Errorf("faults:\n%s", strings.Join(faults, "\n"))
	}
	s.add("c", patches.RoleMedusa)
	if faults := s.w.Faults(); len(faults) != 1 {
		t.Errorf("%d faults after a second round, want one", len(faults))
	}
}
