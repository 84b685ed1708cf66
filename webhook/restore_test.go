package webhook

import (
	"slices"
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

var wantsRestore = map[string]string{api.AnnotationRestore: "b1"}

// TestRestoreOnSkipped asks for a restore for each pod of the corpus that is
// skipped: asked for by the pod, it has to be refused; by the namespace, only
// where the pod may be the database that is meant.
func TestRestoreOnSkipped(t *testing.T) {
	others := []workload.Reason{workload.ReasonNotADatabase, workload.ReasonJobOwned, workload.ReasonMirrorPod, workload.ReasonOptedOut, workload.ReasonRunsToCompletion}
	seen := map[workload.Reason]bool{}
	for name, raw := range corpus(t) {
		plain := decideOn(raw)
		if plain.Verdict != workload.Skip {
			continue
		}
		seen[plain.Reason] = true
		own := decideOn(annotated(t, raw, wantsRestore))
		if own.Verdict != workload.Refuse || own.Reason != plain.Reason || !strings.Contains(own.Message, plain.Message) || !strings.Contains(own.Message, `"b1"`) {
			t.Errorf("%s, restore on the pod: %s (%s) %s", name, own.Verdict, own.Reason, own.Message)
		}
		want := workload.Refuse
		if slices.Contains(others, plain.Reason) {
			want = workload.Skip
		}
		inherited := Decide(Input{Pod: raw, Namespace: withAnnotation(labelled(), api.AnnotationRestore, "b1"), Config: DefaultConfig()})
		if inherited.Verdict != want || inherited.Reason != plain.Reason {
			t.Errorf("%s, restore on the namespace: %s (%s), want %s", name, inherited.Verdict, inherited.Reason, want)
		}
	}
	if len(seen) < 10 {
		t.Errorf("the corpus has only the reasons %v", seen)
	}
}

func TestRestoreTable(t *testing.T) {
	restore := func(backup string) string {
		return `{"name":"stategraft-restore","image":"medusa","command":["/stategraft/bin/stategraft-agent","medusa","restore"],"env":[{"name":"STATEGRAFT_BACKUP","value":"` + backup + `"}]}`
	}
	spec := func(member, value string) []byte {
		return withSpec(t, annotated(t, cassandraPod, wantsRestore), func(spec map[string]any) {
			decoded, err := tree([]byte(value))
			if err != nil {
				t.Fatal(err)
			}
			if list, ok := spec[member].([]any); ok {
				spec[member] = append(list, decoded.([]any)...)
				return
			}
			spec[member] = decoded
		})
	}
	unlabelled := Namespace{Name: "n"}
	for _, c := range []struct {
		what    string
		raw     []byte
		ns      Namespace
		verdict workload.Verdict
		reason  workload.Reason
	}{
		{"good", annotated(t, cassandraPod, wantsRestore), labelled(), workload.Inject, ""},
		{"empty", annotated(t, cassandraPod, map[string]string{api.AnnotationRestore: ""}), labelled(), workload.Refuse, workload.ReasonBadAnnotation},
		{"bad on no database", annotated(t, []byte(`{"metadata":{"name":"x"},"spec":{"containers":[{"name":"nginx"}]}}`), map[string]string{api.AnnotationRestore: "/"}), labelled(), workload.Refuse, workload.ReasonBadAnnotation},
		{"null", []byte(strings.Replace(string(annotated(t, cassandraPod, wantsRestore)), `"b1"`, "null", 1)), labelled(), workload.Refuse, workload.ReasonBadAnnotation},
		{"unlabelled namespace", annotated(t, cassandraPod, wantsRestore), unlabelled, workload.Refuse, workload.ReasonNamespaceNotLabelled},
		{"namespace empties what it asked for", cassandraPod, withAnnotation(labelled(), api.AnnotationRestore, ""), workload.Refuse, workload.ReasonBadAnnotation},
		{"good on the pod, bad on the namespace", annotated(t, cassandraPod, wantsRestore), withAnnotation(labelled(), api.AnnotationRestore, "/"), workload.Inject, ""},
		{"other annotation bad", annotated(t, cassandraPod, map[string]string{api.AnnotationRestore: "b1", api.AnnotationSpread: "x"}), labelled(), workload.Refuse, workload.ReasonBadAnnotation},
		{"unknown namespace", annotated(t, cassandraPod, wantsRestore), Namespace{Unknown: true}, workload.Inject, ""},
		{"template with this restore", spec("initContainers", "["+restore("b1")+"]"), labelled(), workload.Inject, ""},
		{"template with another restore", spec("initContainers", "["+restore("b0")+"]"), labelled(), workload.Refuse, workload.ReasonBadAnnotation},
		{"template with a decoy", spec("initContainers", `[{"name":"stategraft-restore","env":[{"name":"STATEGRAFT_BACKUP","value":"b1"}]}]`), labelled(), workload.Refuse, workload.ReasonNameConflict},
		// Beside the database it restores nothing before the database starts.
		{"template with a restore among the containers", spec("containers", "["+restore("b1")+"]"), labelled(), workload.Refuse, workload.ReasonBadAnnotation},
		{"template with a decoy among the containers", spec("containers", `[{"name":"stategraft-restore"}]`), labelled(), workload.Refuse, workload.ReasonNameConflict},
		{"grpc port taken", annotated(t, cassandraPod, map[string]string{api.AnnotationRestore: "b1", api.AnnotationGRPCPort: "9042"}), labelled(), workload.Refuse, workload.ReasonPortConflict},
	} {
		out := Decide(Input{Pod: c.raw, Namespace: c.ns, Config: DefaultConfig()})
		if out.Verdict != c.verdict || out.Reason != c.reason {
			t.Errorf("%s: %s (%s) %s, want %s (%s)", c.what, out.Verdict, out.Reason, out.Message, c.verdict, c.reason)
		}
		if response := answer(out); response.Allowed == (c.verdict == workload.Refuse) || response.Patch != nil != (c.verdict == workload.Inject) {
			t.Errorf("%s: allowed %v, patch %s", c.what, response.Allowed, response.Patch)
		}
	}
}

// What is injected with its restore is let through again, by the same or a
// second admission; asking for another backup meanwhile is not.
func TestRestoreTwice(t *testing.T) {
	raw := annotated(t, cassandraPod, wantsRestore)
	result := mustPatch(t, raw, decideOn(raw))
	if out := decideOn(result); out.Verdict != workload.Skip || out.Reason != workload.ReasonAlreadyInjected {
		t.Errorf("again: %s (%s) %s", out.Verdict, out.Reason, out.Message)
	}
	if out := decideOn(annotated(t, result, map[string]string{api.AnnotationRestore: "b2"})); out.Verdict != workload.Refuse || !strings.Contains(out.Message, "b2") {
		t.Errorf("another backup: %s (%s) %s", out.Verdict, out.Reason, out.Message)
	}
}

// A pod that cannot be read and can still be seen to ask for a restore is
// refused, a pod that does not is admitted.
func TestRestoreUnreadable(t *testing.T) {
	for text, want := range map[string]workload.Verdict{
		`{"metadata":{"annotations":{"stategraft.io/restore":"b"}},"spec":5}`:                           workload.Refuse,
		`{"metadata":{"annotations":{"stategraft.io/restore":"b"}},"spec":{"containers":{}}}`:           workload.Refuse,
		`{"metadata":{"annotations":{"stategraft.io/restore":{}}},"spec":5}`:                            workload.Refuse,
		`{"metadata":{"annotations":{"x":1,"stategraft.io/restore":"b"}}}`:                              workload.Refuse,
		`{"metadata":{"annotations":{"stategraft.io/restore":"b"}},"spec":{"a":1,"a":2}}`:               workload.Refuse,
		`{"spec":{"containers":5},"metadata":{"annotations":{"stategraft.io/restore":"b"},"labels":1}}`: workload.Refuse,
		`{"metadata":{"annotations":{"stategraft.io/restore":"b"}},"spec":{"containers":[`:              workload.Refuse,
		`{"metadata":{"annotations":{"stategraft.io/restor":"b"}},"spec":5}`:                            workload.Skip,
		`{"metadata":{"labels":{"stategraft.io/restore":"b"}},"spec":5}`:                                workload.Skip,
		`{"spec":{"annotations":{"stategraft.io/restore":"b"},"containers":5}}`:                         workload.Skip,
		``: workload.Skip,
	} {
		out := decideOn([]byte(text))
		if out.Verdict != want || out.Reason != workload.ReasonUnreadablePod {
			t.Errorf("%s: %s (%s), want %s", text, out.Verdict, out.Reason, want)
		}
	}
}

// Elassandra's commitlog-replayer already starts the database: the restore has
// to be done before, and after what the user runs before that.
func TestRestoreBeforeTheDatabase(t *testing.T) {
	raw := corpus(t)["elassandra-operator"]
	for _, ours := range []int{0, 1} { // the second time one of ours is there and the other lost
		raw = annotated(t, raw, wantsRestore)
		out := decideOn(raw)
		result := mustPatch(t, raw, out)
		pod, err := workload.Parse(result)
		if err != nil {
			t.Fatal(err)
		}
		order := map[string]int{}
		for i := range pod.Spec.InitContainers {
			order[pod.Spec.InitContainers[i].Name] = i
		}
		setup, restore, replayer := order[patches.ContainerSetup], order[patches.ContainerRestore], order["commitlog-replayer"]
		if restore != setup+1 || replayer != restore+1 {
			t.Errorf("%d: init containers in the order %v", ours, order)
		}
		raw = withSpec(t, result, func(spec map[string]any) {
			spec["initContainers"] = slices.DeleteFunc(spec["initContainers"].([]any), func(c any) bool {
				return c.(map[string]any)["name"] == patches.ContainerRestore
			})
		})
	}
}
