package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Input is a pod to decide on, with what surrounds it.
type Input struct {
	Pod       []byte   // the pod's JSON as submitted
	Claims    []string // names of a StatefulSet's claim templates, for a template read from a file
	Namespace Namespace
	Config    *Config

	// NativeSidecars says what the cluster can do where the configuration
	// leaves it open.
	NativeSidecars bool

	// HeldBack tells whether the pods of an owner are admitted without injection
	// for now; nil for never.
	HeldBack func(namespace, kind, name string) (api.HeldBack, bool)

	// Order tells what a Restore has to do with a pod; nil for nothing.
	Order func(namespace, pod string) (api.Order, bool)
}

// Outcome is a decision with the patch that carries it out.
type Outcome struct {
	workload.Decision
	Patch *patches.Patch // nil unless injected
	Owner workload.Owner // who made the pod; zero where nobody did

	// Unread are the warnings of keys that look like ours and are not read. Who
	// wrote them into a template does not see the answer to its pods.
	Unread []string
}

// Decide is what admission and the command line have in common: it recognises
// the pod, reads the settings and builds the patch.
//
//	recognised | settings | patch    | restore asked | decision
//	inject     | good     | built    | any           | inject
//	inject     | good     | empty    | any           | skip already-injected
//	inject     | good     | conflict | no            | skip, the conflict's reason
//	inject     | good     | held     | no            | skip held-back
//	inject     | bad      |          | no            | skip bad-annotation
//	skip       |          |          | no            | skip
//	any but inject or already-injected     | yes     | refuse, the same reason
//
// Settings are bad where a value is that what is added depends on. The annotations that
// the controller follows (backup-schedule, retain, rpo, on-config-change, adopt, adopt-renew) are not
// among them: a bad value must not end the backups that there are. It is warned of.
//
// A pending order of a Restore is a restore that is asked for. It stands instead of
// the namespace's annotation, and a pod with an annotation of its own beside it is
// refused: it would be restored to the one and then to the other.
func Decide(in Input) Outcome {
	pod, err := workload.Parse(in.Pod)
	if err != nil {
		return unreadable(in, err)
	}
	out, _ := decideOnPod(pod, in)
	return out
}

// decideOnPod also gives the settings that were decided by.
func decideOnPod(pod *workload.Pod, in Input) (Outcome, *resolved) {
	pod.Claims = in.Claims
	r := resolve(pod, in.Namespace, in.Config, in.order(pod.Metadata.Name))
	if in.Config.NativeSidecars == "auto" {
		r.settings.NativeSidecars = in.NativeSidecars
	}
	out := decide(pod, &r, in)
	out.Owner, _ = pod.Controller()
	out.Unread = r.unread
	out.Warnings = slices.Concat(r.unfollowed, r.unread, r.warnings, out.Warnings)
	switch order := &r.settings.Order; {
	case !r.refuses(out.Decision):
	case order.Pending && r.restoreOwn:
		out.refuse("", bothAsk(pod, order, in.Namespace.Name))
	case order.Pending:
		out.refuseOrder(order, in.Namespace.Name)
	default:
		bad, _ := r.problemOf(api.AnnotationRestore)
		out.refuse(r.settings.Restore, bad.text)
	}
	return out, &r
}

func decide(pod *workload.Pod, r *resolved, in Input) Outcome {
	d := workload.Recognize(pod, r.hints)
	for _, p := range r.problems {
		d.Warnings = append(d.Warnings, p.text)
	}
	if d.Verdict != workload.Inject {
		return Outcome{Decision: d}
	}
	if len(r.problems) > 0 {
		d.Warnings = d.Warnings[:len(d.Warnings)-len(r.problems)]
		text := r.problems[0].text
		if p, ok := r.problemOf(api.AnnotationRestore); ok {
			text = p.text
		}
		if more := len(r.problems) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		return Outcome{Decision: stop(d, workload.ReasonBadAnnotation, text)}
	}
	if d.Workload.Kind == workload.KindCassandra && d.Workload.UID != workload.MedusaUID && !r.imageChosen {
		r.settings.MedusaImage = in.Config.Medusa.AnyUIDImage
	}
	if !r.restoreOwn && !d.Workload.HoldsData() {
		r.settings.Restore = "" // the namespace's restore is for those that have something to restore
	}
	patch, err := patches.Build(pod, d.Workload, r.settings)
	if err != nil {
		var conflict *patches.Conflict
		if errors.As(err, &conflict) {
			return Outcome{Decision: stop(d, conflict.Reason, conflict.Message)}
		}
		return Outcome{Decision: stop(d, workload.ReasonInternalError, err.Error())}
	}
	d.Warnings = append(d.Warnings, patch.Warnings...)
	if len(patch.Operations) == 0 {
		d.Warnings = nil
		return Outcome{Decision: stop(d, workload.ReasonAlreadyInjected, "the pod has all that would be added")}
	}
	if text, ok := exceeds(pod, patch, in.Namespace); ok {
		return Outcome{Decision: stop(d, workload.ReasonQuotaExceeded, text)}
	}
	if text, ok := heldBack(pod, r, patch, in); ok {
		return Outcome{Decision: stop(d, workload.ReasonHeldBack, text)}
	}
	return Outcome{Decision: d, Patch: patch}
}

func stop(d workload.Decision, reason workload.Reason, message string) workload.Decision {
	d.Verdict, d.Reason, d.Message = workload.Skip, reason, message
	return d
}

// refuses tells whether the pod must not be admitted as it is: it asked for a
// restore and does not get one. A restore asked for by the namespace is not
// meant for pods that are no databases.
func (r *resolved) refuses(d workload.Decision) bool {
	if !r.restoreAsked {
		return false
	}
	if r.restoreOwn {
		if _, bad := r.problemOf(api.AnnotationRestore); bad || r.settings.Order.Pending {
			return true
		}
	}
	if d.Verdict != workload.Skip || d.Reason == workload.ReasonAlreadyInjected {
		return false
	}
	if r.restoreOwn || r.settings.Order.Pending {
		return true
	}
	if d.Workload.Kind != workload.KindNone && !d.Workload.HoldsData() {
		return false
	}
	switch d.Reason {
	case workload.ReasonNotADatabase, workload.ReasonJobOwned, workload.ReasonMirrorPod, workload.ReasonOptedOut,
		workload.ReasonNothingToRestore, workload.ReasonRunsToCompletion, workload.ReasonNamespaceNotLabelled:
		return false
	}
	return true
}

// refuse turns a decision into a refusal and says why the restore cannot be.
// bad is the text of a restore annotation that cannot be understood.
func (o *Outcome) refuse(backup, bad string) {
	o.Verdict, o.Patch = workload.Refuse, nil
	if bad != "" {
		o.Reason, o.Message = workload.ReasonBadAnnotation, bad
		o.Warnings = slices.DeleteFunc(o.Warnings, func(text string) bool { return text == bad }) // said once
		return
	}
	o.Message = fmt.Sprintf("backup %q cannot be restored before this pod starts: %s", workload.Short(backup), o.Message)
}

// unreadable answers for a pod that cannot be decoded. The API server decoded
// it before, so something is wrong here: the pod is admitted as it is, unless
// it can still be seen that it is to be restored.
func unreadable(in Input, err error) Outcome {
	d := workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonUnreadablePod,
		Message: "the pod cannot be read: " + fault(err)}
	out := Outcome{Decision: d}
	out.refuseIfAsked(in)
	return out
}

// refuseIfAsked refuses a pod that could not be decided on, where it is to be
// restored.
func (o *Outcome) refuseIfAsked(in Input) {
	seen := restoreIn(in.Pod)
	if order := in.order(seen.name); order.Pending {
		o.refuseOrder(&order, in.Namespace.Name)
	} else if seen.asked {
		o.refuse(seen.backup, "")
	}
}

// glimpse is what of a pod counts for a restore.
type glimpse struct {
	name, backup string
	asked        bool // by annotation
}

// restoreIn looks for the pod's name and its restore annotation and nothing else,
// in as much of the document as can be read.
func restoreIn(raw []byte) (seen glimpse) {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	text := func(into *string) error {
		value, err := decoder.ReadValue()
		_ = json.Unmarshal(value, into) // what is no string names nothing
		return err
	}
	// The error does not matter: what was read until then is looked at.
	_ = enter(decoder, func(name string) error {
		if name != "metadata" {
			return decoder.SkipValue()
		}
		return enter(decoder, func(name string) error {
			switch name {
			case "name":
				return text(&seen.name)
			case "annotations":
				return enter(decoder, func(name string) error {
					if name != api.AnnotationRestore {
						return decoder.SkipValue()
					}
					seen.asked = true
					return text(&seen.backup)
				})
			}
			return decoder.SkipValue()
		})
	})
	return seen
}

// enter hands each member's name of the object that comes next to a function
// that reads its value. Anything but an object is skipped.
func enter(decoder *jsontext.Decoder, member func(name string) error) error {
	if decoder.PeekKind() != '{' {
		return decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}

// fault says what is wrong with a document, and where, without its content: the
// message is logged and put into events.
func fault(err error) string {
	var syntactic *jsontext.SyntacticError
	var semantic *jsonv2.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return fmt.Sprintf("a member appears twice in %q", workload.Short(string(syntactic.JSONPointer.Parent())))
	case errors.As(err, &syntactic):
		return fmt.Sprintf("it is no valid JSON after byte %d", syntactic.ByteOffset)
	case errors.As(err, &semantic):
		return fmt.Sprintf("%q has the wrong type", workload.Short(string(semantic.JSONPointer)))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	}
	return "it is no valid JSON"
}
