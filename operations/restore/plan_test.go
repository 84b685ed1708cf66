package restore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func backup(change func(*node.Backup)) func(*Facts) { return func(f *Facts) { change(f.Backup) } }

func report(pod string, change func(*node.Report)) func(*Facts) {
	return func(f *Facts) {
		r := f.Reports[pod]
		change(&r)
		f.Reports[pod] = r
	}
}

var mayBeEmpty = spec(func(s *api.RestoreSpec) { s.WhenNoBackup = api.NoBackupEmpty })

func without(n string) func(*Facts) {
	return backup(func(b *node.Backup) {
		b.Members = slices.DeleteFunc(b.Members, func(m node.Member) bool { return m.Node == n })
		b.Nodes = slices.DeleteFunc(b.Nodes, func(name string) bool { return name == n })
		delete(b.Ring, n)
	})
}

func remote(nodes map[string]string) func(*Facts) {
	return func(f *Facts) {
		f.Restore.Spec.Mode = api.Remote
		if nodes != nil {
			f.Restore.Spec.Source = &api.RestoreSource{Nodes: nodes}
		}
		f.Backup = factBackup("nightly", "old-0", "old-1", "old-2")
	}
}

// healed has the sidecar of a pod idle in the database's image (operations/heal).
func healed(i int) func(*Facts) {
	return func(f *Facts) {
		pod := f.Pods[i]
		delete(f.Reports, pod.Name)
		pod.Spec.Containers[1].Image = pod.Spec.Containers[0].Image
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: api.ConditionDegraded, Status: corev1.ConditionTrue, Reason: api.DegradedHealed})
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		what     string
		n, total int
		change   []func(*Facts)
		reason   string
		wait     bool
		says     []string
	}{
		{"not looked up", 1, 3, []func(*Facts){func(f *Facts) { f.Backup = nil }}, ReasonLookingUp, true, nil},
		{"nothing of a pod", 2, 3, []func(*Facts){without("cas-1")}, ReasonNoBackupOfNode, false, []string{"pod cas-1", "node cas-1", "has nothing of it", "finished for nodes cas-0, cas-2"}},
		{"scaled up since", 3, 3, []func(*Facts){without("cas-2")}, ReasonNoBackupOfNode, false, []string{"StatefulSet cas was scaled up since: it had 2 pods", "Empty"}},
		{"never finished", 2, 3, []func(*Facts){backup(func(b *node.Backup) { b.Members[1].Complete = false })}, ReasonNoBackupOfNode, false, []string{"cas-1", "never finished"}},
		{"empty", 2, 3, []func(*Facts){backup(func(b *node.Backup) { b.Members[1].Objects = 0 })}, ReasonNoBackupOfNode, false, []string{"cas-1", "no file of any table"}},
		{"no names in the ring", 1, 3, []func(*Facts){backup(func(b *node.Backup) { b.Ring = map[string]node.Ring{"10.0.0.1": {}} })}, ReasonNotInRing, false, []string{"cas-0", "10.0.0.1"}},
		{"no names in the ring, may be empty", 1, 3, []func(*Facts){mayBeEmpty, backup(func(b *node.Backup) { b.Ring = nil })}, ReasonNotInRing, false, nil},
		{"all would be empty", 2, 3, []func(*Facts){mayBeEmpty, without("cas-0"), without("cas-1")}, ReasonNothingToRestore, false, []string{"node cas-2"}},
		{"room", 2, 3, []func(*Facts){report("cas-1", func(r *node.Report) { r.Free = 1<<30 + 1<<30/50 - 1 })}, ReasonTooLittleRoom, false, []string{"cas-1 needs 1.0 GiB"}},
		{"scaled down since", 2, 2, []func(*Facts){func(f *Facts) { f.Backup = factBackup("nightly", "cas-0", "cas-1", "cas-2", "cas-10", "rack2-0") }}, ReasonTopologyDiffers, false,
			[]string{"nodes cas-2, cas-10,", "scale StatefulSet cas to 11 first"}},
		{"two get one node", 2, 3, []func(*Facts){spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Nodes: map[string]string{"cas-0": "cas-1"}} })}, ReasonDuplicateSource, false, []string{"cas-0 and cas-1", "node cas-1"}},
		{"remote, named in part", 2, 2, []func(*Facts){remote(map[string]string{"cas-0": "old-0"})}, ReasonIncompleteMapping, false, []string{"says nothing of cas-1"}},
		{"remote, too few pods", 2, 2, []func(*Facts){remote(nil)}, ReasonRacksDiffer, false, []string{"2 pods", "3 nodes"}},
		{"remote, no tokens", 3, 3, []func(*Facts){remote(nil), backup(func(b *node.Backup) { b.Ring["old-1"] = node.Ring{Rack: "rack1"} })}, ReasonNotInRing, false, []string{"no tokens of node old-1"}},
		{"a backup runs", 2, 3, []func(*Facts){report("cas-1", func(r *node.Report) { r.BackupRunning = true })}, ReasonBackupRunning, true, []string{"cas-1"}},
		{"ready and silent", 2, 3, []func(*Facts){func(f *Facts) { delete(f.Reports, "cas-1"); f.Silent["cas-1"] = errors.New("refused") }}, ReasonSidecarSilent, true, []string{"cas-1: refused"}},
		{"ready and healed", 3, 3, []func(*Facts){healed(0), healed(1), func(f *Facts) { delete(f.Reports, "cas-2") }}, ReasonSidecarHealed, true,
			[]string{"sidecar of cas-0, cas-1,", "could not be pulled", "kubectl -n ns delete pod cas-0 cas-1)", "stategraft.io/held-back=ignore"}},
		{"healed, but for another container", 2, 3, []func(*Facts){healed(1), func(f *Facts) { f.Pods[1].Spec.Containers[1].Image = "medusa:1" }}, ReasonSidecarSilent, true, nil},
		{"of the database's image by its user's wish", 2, 3, []func(*Facts){healed(1), func(f *Facts) { f.Pods[1].Status.Conditions = f.Pods[1].Status.Conditions[:1] }}, ReasonSidecarSilent, true, nil},
		{"budget", 1, 3, []func(*Facts){func(f *Facts) {
			f.Budgets = []policyv1.PodDisruptionBudget{factBudget("b", 0, 3, map[string]string{"app": "cas"})}
		}}, ReasonDisruptionBudget, true, nil},
		{"what does not pass comes first", 2, 3, []func(*Facts){without("cas-0"), report("cas-1", func(r *node.Report) { r.BackupRunning = true })}, ReasonNoBackupOfNode, false, nil},
		{"undo, removed since", 2, 3, []func(*Facts){earlier(api.RestoreCompleted), report("cas-0", func(r *node.Report) { r.Previous = []node.Previous{{ID: "before/1"}} })}, ReasonNoPrevious, false, []string{"on cas-1"}},
		{"undo, of another's", 1, 3, []func(*Facts){earlier(api.RestoreCompleted), report("cas-0", func(r *node.Report) { r.Previous = []node.Previous{{ID: "before/2"}} })}, ReasonNoPrevious, false, nil},
		{"undo, gone", 1, 3, []func(*Facts){earlier(api.RestoreCompleted), func(f *Facts) { f.Earlier = nil }}, ReasonNoSuchRestore, false, nil},
	} {
		pods, message, p := Plan(facts(c.n, c.total, c.change...))
		if p == nil || p.Reason != c.reason || p.Wait != c.wait || pods != nil || message != "" {
			t.Errorf("%s: got %+v, %v %q", c.what, p, pods, message)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(p.Message, says) {
				t.Errorf("%s: %q does not say %q", c.what, p.Message, says)
			}
		}
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		what     string
		n, total int
		change   []func(*Facts)
		pods     string // as name:action:node:tokens
		message  string
	}{
		{"one of three", 1, 3, nil, "cas-0:restore:cas-0:",
			"1 pod gets backup nightly, finished 2026-03-01T09:00:00Z: 1.0 GiB. What these nodes have taken since then is lost on them; where other replicas have it, nodetool repair brings it back."},
		{"all", 3, 3, nil, "cas-0:restore:cas-0: cas-1:restore:cas-1: cas-2:restore:cas-2:",
			"3 pods get backup nightly, finished 2026-03-01T09:00:00Z: 3.0 GiB. What was written since then is lost."},
		{"just enough room", 1, 3, []func(*Facts){report("cas-0", func(r *node.Report) { r.Free = 1<<30 + 1<<30/50 })}, "cas-0:restore:cas-0:", ""},
		{"one empty", 3, 3, []func(*Facts){mayBeEmpty, without("cas-2")}, "cas-0:restore:cas-0: cas-1:restore:cas-1: cas-2:empty::",
			"2 pods get backup nightly, finished 2026-03-01T09:00:00Z: 2.0 GiB. cas-2 starts without data, as the backup has nothing of it: what it holds now is lost. What was written since then is lost."},
		{"no way back", 3, 3, []func(*Facts){spec(func(s *api.RestoreSpec) { s.KeepPrevious = api.KeepNever })}, "", "there is no way back."},
		{"from another node", 1, 3, []func(*Facts){spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Nodes: map[string]string{"cas-0": "cas-2"}} })}, "cas-0:restore:cas-2:", "1.0 GiB, cas-2 to cas-0."},
		{"crash-looping and silent", 1, 3, []func(*Facts){pod0(unready), func(f *Facts) { f.Reports = nil }}, "cas-0:restore:cas-0:", "The room on the volume of cas-0 is not known"},
		{"another rack's nodes", 2, 2, []func(*Facts){func(f *Facts) { f.Backup = factBackup("nightly", "cas-0", "cas-1", "rack2-0") }}, "cas-0:restore:cas-0: cas-1:restore:cas-1:",
			"The backup has node rack2-0 besides"},
		{"scaled down, and only one is restored", 1, 2, []func(*Facts){func(f *Facts) { f.Backup = factBackup("nightly", "cas-0", "cas-1", "cas-2") }}, "cas-0:restore:cas-0:", ""},
		{"not all nodes have finished", 1, 3, []func(*Facts){backup(func(b *node.Backup) { b.Complete, b.Finished, b.Members[1].Complete = false, time.Time{}, false })}, "cas-0:restore:cas-0:", "finished 2026-03-01T09:00:00Z"},
		{"versions", 1, 3, []func(*Facts){backup(func(b *node.Backup) { b.Members[0].Version = "5.0.2" })}, "", "Versions differ: the backup is of Cassandra 5.0.2, the pods run 4.1;"},
		{"budget of all", 3, 3, []func(*Facts){func(f *Facts) {
			f.Budgets = []policyv1.PodDisruptionBudget{factBudget("b", 1, 3, map[string]string{"app": "cas"})}
		}}, "", "All pods of PodDisruptionBudget b are taken down together, against it."},
		{"dry run that would wait", 1, 3, []func(*Facts){spec(func(s *api.RestoreSpec) { s.DryRun = true }), report("cas-0", func(r *node.Report) { r.BackupRunning = true })}, "cas-0:restore:cas-0:",
			"For now it would wait: waits for the backup that runs on cas-0."},
		{"dry run beside another", 1, 3, []func(*Facts){spec(func(s *api.RestoreSpec) { s.DryRun = true }), other(time.Hour, func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0"} })}, "",
			"For now it would wait: waits for restore other, which asked for cas-0 before."},
		{"a tenth free", 1, 3, []func(*Facts){report("cas-0", func(r *node.Report) { r.Size, r.Free = 20<<30, 3<<30 })}, "", "brings it back."},
		{"less than a tenth free", 1, 3, []func(*Facts){report("cas-0", func(r *node.Report) { r.Size, r.Free = 20<<30, 3<<30-1 })}, "", "There will be no way back on cas-0"},
		{"a tenth free with what was kept", 1, 3, []func(*Facts){report("cas-0", func(r *node.Report) { r.Size, r.Free, r.Previous = 20<<30, 2<<30, []node.Previous{{Bytes: 1 << 30}} })}, "", "brings it back."},
		{"remote", 3, 3, []func(*Facts){remote(nil)}, "cas-0:restore:old-0:0 cas-1:restore:old-1:1 cas-2:restore:old-2:2", "3.0 GiB, old-0 to cas-0, old-1 to cas-1, old-2 to cas-2. What was written since then is lost."},
		{"remote, named", 2, 3, []func(*Facts){remote(map[string]string{"cas-0": "old-2", "cas-1": "old-0"})}, "cas-0:restore:old-2:2 cas-1:restore:old-0:0",
			"No pod gets node old-1 of the backup: what only they hold is missing afterwards. Other pods of the same workload are left as they are"},
		{"undo", 1, 3, []func(*Facts){earlier(api.RestoreCompleted), report("cas-0", func(r *node.Report) {
			r.Previous = []node.Previous{{ID: "x"}, {ID: "before/1", Since: today.Add(-time.Hour), Bytes: 2048}}
		})}, "cas-0:undo::", "1 pod goes back to the data from before restore before, 2.0 KiB. What was written since 2026-03-01T11:00:00Z is lost."},
		{"healed and not Ready", 1, 3, []func(*Facts){healed(0), pod0(unready)}, "cas-0:restore:cas-0:", "The room on the volume of cas-0 is not known"},
		{"undo, silent", 2, 3, []func(*Facts){earlier(api.RestoreCompleted), func(f *Facts) { f.Reports = nil; unready(f.Pods[0]); unready(f.Pods[1]) }}, "cas-0:undo:: cas-1:undo::", "2 pods go back"},
	} {
		pods, message, p := Plan(facts(c.n, c.total, c.change...))
		if p != nil {
			t.Errorf("%s: %+v", c.what, p)
			continue
		}
		var got []string
		for _, at := range pods {
			got = append(got, at.Name+":"+string(at.Action)+":"+at.Node+":"+strings.Join(at.Tokens, ","))
			if at.Phase != api.PodPlanned || (at.Action == api.ActionRestore) != (at.BytesTotal == 1<<30) {
				t.Errorf("%s: %+v", c.what, at)
			}
		}
		if c.pods != "" && strings.Join(got, " ") != c.pods {
			t.Errorf("%s: %q, want %q", c.what, got, c.pods)
		}
		if !strings.Contains(message, c.message) || strings.HasSuffix(c.message, "brings it back.") && !strings.HasSuffix(message, c.message) {
			t.Errorf("%s: %q does not say %q", c.what, message, c.message)
		}
	}
}

// TestPlanSorts has the pods in any order.
func TestPlanSorts(t *testing.T) {
	f := facts(2, 3, spec(func(s *api.RestoreSpec) { s.Pods = api.RestorePods{Names: []string{"cas-0"}} }))
	f.Pods = []*corev1.Pod{f.Kin[1], f.Kin[0]} // as the API server lists them, in any order
	pods, _, p := Plan(f)
	if p != nil || len(pods) != 2 || pods[0].Name != "cas-0" || pods[1].Name != "cas-1" {
		t.Error(pods, p)
	}
}

func TestDatabaseVersion(t *testing.T) {
	for image, want := range map[string]string{
		"cassandra:4.1.3": "4.1", "docker.io/library/cassandra:5.0": "5.0", "k8ssandra/cass-management-api:4.1.3-ubi": "4.1",
		"docker.io/bitnami/cassandra:5.0.5-debian-12": "5.0", "cassandra:latest": "", "bitnami/cassandra-exporter:2.3.4": "", "gcr.io/google-samples/cassandra:v14": "",
		"registry:5000/cassandra:v3.11.6": "3.11", "strapdata/elassandra-node:6.8.4": "",
	} {
		if got := databaseVersion(factPod("cas-0", func(p *corev1.Pod) { p.Spec.Containers[0].Image = image })); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
