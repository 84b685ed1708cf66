package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// This file says what holds for every decision on every pod, whatever is in it.
// The corpus, the random pods and the fuzzer are all held to it.

// places are where a patch may add, and nowhere else.
var places = regexp.MustCompile(`^/(metadata/(annotations|labels)(/stategraft\.io~1injected)?` +
	`|spec/(volumes|initContainers|containers)(/-|/\d+)?` +
	`|spec/containers/\d+/(volumeMounts(/-)?|ports(/\d+/hostPort)?)` +
	`|spec/(initContainers|containers)/\d+/env(/-|/\d+)?|spec/(schedulingGates|readinessGates)(/-)?` +
	`|spec/containers/\d+/lifecycle(/preStop)?` +
	`|spec/affinity(/pod(Anti)?Affinity(/(required|preferred)DuringSchedulingIgnoredDuringExecution(/-)?)?)?` +
	`|spec/(hostNetwork|dnsPolicy))$`)

// holds checks an outcome for the pod it was made of. loose is for pods that no
// API server would send: there only what must hold for any bytes is checked.
func holds(raw []byte, in Input, out Outcome) error {
	switch {
	case out.Verdict != workload.Inject && out.Verdict != workload.Skip && out.Verdict != workload.Refuse:
		return fmt.Errorf("verdict %q", out.Verdict)
	case out.Verdict == workload.Inject && (out.Reason != "" || out.Patch == nil || len(out.Patch.Operations) == 0):
		return fmt.Errorf("injected with reason %q and no patch", out.Reason)
	case out.Verdict != workload.Inject && (out.Patch != nil || !known(out.Reason)):
		return fmt.Errorf("%s with reason %q and patch %v", out.Verdict, out.Reason, out.Patch)
	case out.Message == "":
		return fmt.Errorf("%s (%s) without a message", out.Verdict, out.Reason)
	}
	if out.Patch == nil {
		return nil
	}
	for _, op := range out.Patch.Operations {
		if op.Operation != "add" || !places.MatchString(op.Path) {
			return fmt.Errorf("operation %s %s", op.Operation, op.Path)
		}
	}
	if err := sameEncoding(out); err != nil {
		return err
	}
	result, err := patched(raw, out)
	if err != nil {
		return fmt.Errorf("the patch does not apply: %w", err)
	}
	if err := orderKept(in, out, result); err != nil {
		return err
	}
	in.Pod = result
	if again := Decide(in); again.Verdict != workload.Skip || again.Reason != workload.ReasonAlreadyInjected || again.Patch != nil {
		return fmt.Errorf("the second time: %s (%s) %s, operations %v", again.Verdict, again.Reason, again.Message, operationsOf(again))
	}
	before, err := tree(raw)
	if err != nil {
		return err
	}
	after, err := tree(result)
	if err != nil {
		return err
	}
	return survives("", before, after)
}

func known(reason workload.Reason) bool {
	for _, r := range workload.Reasons {
		if r == reason {
			return true
		}
	}
	return false
}

func operationsOf(out Outcome) string {
	if out.Patch == nil {
		return "none"
	}
	text, _ := patches.Marshal(out.Patch.Operations)
	return string(text)
}

// sameEncoding compares the fast encoder with encoding/json.
func sameEncoding(out Outcome) error {
	fast, err := patches.Marshal(out.Patch.Operations)
	if err != nil {
		return err
	}
	again, err := patches.Marshal(out.Patch.Operations)
	if err != nil || !bytes.Equal(fast, again) {
		return fmt.Errorf("encoded twice, two texts (%v)", err)
	}
	slow, err := json.Marshal(out.Patch.Operations)
	if err != nil {
		return err
	}
	a, err := tree(fast)
	if err != nil {
		return err
	}
	b, err := tree(slow)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("the encoders differ:\n%s\n%s", fast, slow)
	}
	return nil
}

// survives tells whether everything of before is in after, each leaf as it was
// written. Lists may only have grown, by entries that are ours.
func survives(at string, before, after any) error {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: a mapping became %T", at, after)
		}
		for key, value := range b {
			kept, ok := a[key]
			if !ok {
				return fmt.Errorf("%s/%s is gone", at, key)
			}
			if err := survives(at+"/"+key, value, kept); err != nil {
				return err
			}
		}
		return nil
	case []any:
		a, ok := after.([]any)
		if !ok {
			return fmt.Errorf("%s: a list became %T", at, after)
		}
		return survivesList(at, b, a)
	case nil:
		return nil // a null is an absent parent
	}
	if at == "/spec/dnsPolicy" || at == "/spec/hostNetwork" {
		return nil // on request only, and tested where it is requested
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s: %v became %v", at, before, after)
	}
	return nil
}

func survivesList(at string, before, after []any) error {
	next := 0
	for i, entry := range after {
		if next < len(before) && survives("", before[next], entry) == nil {
			next++
			continue
		}
		if object, ok := entry.(map[string]any); ok {
			name, _ := object["name"].(string)
			value, _ := object["value"].(string)
			if strings.HasPrefix(name, workload.OwnPrefix) || at == "/spec/schedulingGates" && name == api.GateRestore ||
				strings.HasSuffix(at, "/env") && (value == "" || strings.HasSuffix(value, " -Dcassandra.auto_bootstrap=false")) {
				continue
			}
		}
		if object, ok := entry.(map[string]any); ok && at == "/spec/readinessGates" && object["conditionType"] == api.ConditionReplayed {
			continue
		}
		if strings.HasPrefix(at, "/spec/affinity/") || strings.HasSuffix(at, "/ports") && len(before) == 0 {
			continue
		}
		return fmt.Errorf("%s/%d is neither the user's nor ours: %v", at, i, entry)
	}
	if next < len(before) {
		err := fmt.Errorf("%s/%d is gone or moved", at, next)
		if len(after) == len(before) {
			err = fmt.Errorf("%w: %w", err, survives(at, before[next], after[next]))
		}
		return err
	}
	return nil
}
