package check

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// policyName is the policy that refuses a pod without the restore it asks for
// (deploy/chart/templates/admission/restore-policy.yaml).
const policyName = "restore." + api.Group

// pendingName is the policy that refuses a pod that a Restore has yet to restore
// (deploy/chart/templates/admission/restore-pending-policy.yaml).
const pendingName = "restore-pending." + api.Group

// What is lost without each of the two.
const (
	policyLost  = "while the webhook is down, a pod that asks for a restore starts without it"
	pendingLost = "while the webhook is down, a pod that a Restore is about starts without it"
)

// boundsNames are the policies that bound what the controller may write.
var boundsNames = []string{
	"controller-secrets." + api.Group, "controller-pods." + api.Group, "controller-creates." + api.Group,
	"controller-namespaces." + api.Group, "controller-configmaps." + api.Group, "controller-backups." + api.Group, "controller-schedules." + api.Group, "controller-services." + api.Group, "controller-evictions." + api.Group, "controller-adopt." + api.Group,
}

// probeBackup is the backup that the tried pod asks for. It does not exist, and
// nobody looks for it: the pod is never stored.
const probeBackup = "stategraft-check"

func lookPolicy(ctx context.Context, c *Cluster) []Finding {
	findings := append(c.policies(ctx), c.unrestored(ctx)...)
	tried, err := c.probe(ctx)
	if err != nil || tried.outcome == foreign {
		return findings // the item admission says so
	}
	restoring, err := c.try(ctx, tried.namespace, probeBackup)
	if err != nil {
		return append(findings, skipped(err)...)
	}
	return append(findings, judgeRestoring(restoring)...)
}

// policies looks at the policies as they are written.
func (c *Cluster) policies(ctx context.Context) []Finding {
	const group = "admissionregistration.k8s.io"
	client := c.Kube.AdmissionregistrationV1()
	bindings, err := client.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return skipped(unread(err, right{Verb: "list", Group: group, Resource: "validatingadmissionpolicybindings"}))
	}
	get := func(name string) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
		policy, err := client.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return policy, unread(err, right{Verb: "get", Group: group, Resource: "validatingadmissionpolicies", Name: name})
	}
	policy, err := get(policyName)
	if err != nil {
		return skipped(err)
	}
	findings := judgePolicy(policyName, policyLost, policy, bindings.Items)
	pending, err := get(pendingName)
	if err != nil {
		return append(findings, skipped(err)...)
	}
	findings = append(findings, judgePolicy(pendingName, pendingLost, pending, bindings.Items)...)
	findings = append(findings, judgeParameters(pending, bindings.Items)...)
	if c.installation(ctx).part(partController) == nil {
		return findings
	}
	for _, name := range boundsNames {
		bounds, err := get(name)
		if err != nil {
			return append(findings, skipped(err)...)
		}
		findings = append(findings, judgeBounds(name, bounds, bindings.Items)...)
	}
	return findings
}

// judgeBounds judges a policy that bounds the controller; nil where there is none.
func judgeBounds(name string, policy *admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) []Finding {
	const lost = "nothing keeps a controller that was taken over, or errs, to what is its own"
	const again = applyAgain
	denies := slices.ContainsFunc(bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
		return b.Spec.PolicyName == name && slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
	})
	switch {
	case policy == nil:
		return []Finding{finding(Warn, name, "there is no such ValidatingAdmissionPolicy: %s", lost).With(again)}
	case !denies:
		return []Finding{finding(Warn, name, "no binding of the policy denies: %s", lost).With(again)}
	}
	return nil
}

// judgePolicy judges a policy as it is written, nil where there is none; lost says
// what it is for.
func judgePolicy(name, lost string, policy *admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) []Finding {
	const again = applyAgain
	if policy == nil {
		return []Finding{finding(Fail, name, "there is no such ValidatingAdmissionPolicy: %s", lost).With(again)}
	}
	var findings []Finding
	bound, denies := false, false
	for _, b := range bindings {
		if b.Spec.PolicyName == policy.Name {
			bound = true
			denies = denies || slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
			if b.Spec.MatchResources != nil {
				findings = append(findings, finding(Warn, b.Name, "the binding restricts the policy: outside of its matchResources %s", lost).With(again))
			}
		}
	}
	switch {
	case !bound:
		findings = append(findings, finding(Fail, policy.Name, "the policy is bound by nothing: %s", lost).With(again))
	case !denies:
		findings = append(findings, finding(Fail, policy.Name, "no binding of the policy denies: %s", lost).With(again))
	}
	if p := policy.Spec.FailurePolicy; p != nil && *p != admissionregistrationv1.Fail {
		findings = append(findings, finding(Fail, policy.Name, "has failurePolicy %s: a pod that it cannot judge starts, without its restore", *p).With(again))
	}
	if checked := policy.Status.TypeChecking; checked != nil {
		for _, w := range checked.ExpressionWarnings {
			findings = append(findings, finding(Warn, policy.Name, "the API server dislikes %s: %s", w.FieldRef, w.Warning).With("report it, with the version of Kubernetes"))
		}
	}
	if len(findings) == 0 {
		findings = append(findings, finding(OK, policy.Name, "bound, and denies"))
	}
	return findings
}

// judgeParameters judges by which Restores the policy on pending pods goes: all of
// the pod's namespace, and where there is none nothing is to be restored.
func judgeParameters(policy *admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) []Finding {
	if policy == nil {
		return nil // which is said
	}
	if kind := policy.Spec.ParamKind; kind == nil || kind.Kind != "Restore" || kind.APIVersion != api.GroupVersion.String() {
		return []Finding{finding(Fail, policy.Name, "does not go by Restores (paramKind): %s", pendingLost).With(applyAgain)}
	}
	var findings []Finding
	for _, b := range bindings {
		if b.Spec.PolicyName != policy.Name {
			continue
		}
		ref := b.Spec.ParamRef
		switch {
		case ref == nil:
			findings = append(findings, finding(Fail, b.Name, "the binding names no Restores (paramRef): %s", pendingLost).With(applyAgain))
		case ref.Name != "" || ref.Namespace != "" || ref.Selector != nil && len(ref.Selector.MatchLabels)+len(ref.Selector.MatchExpressions) > 0:
			findings = append(findings, finding(Fail, b.Name, "the binding goes by some Restores only (paramRef): %s, for all others", pendingLost).With(applyAgain))
		case ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction:
			findings = append(findings, finding(Fail, b.Name, "the binding refuses every pod of a labelled namespace without a Restore (parameterNotFoundAction Deny)").With(applyAgain))
		}
	}
	return findings
}

// judgeRestoring judges what became of a pod that asks for a restore. Refused it
// is safe, whoever refused it.
func judgeRestoring(p probe) []Finding {
	switch p.outcome {
	case failedOpen, answered:
		return []Finding{finding(Fail, p.namespace, "a pod that asks for a restore comes back without it (dry run): its database would start empty, or with other data").
			With("do not restore anything before this is settled; " + applyAgain)}
	case held:
		return []Finding{finding(OK, p.namespace, "while the webhook is down a pod that asks for a restore is refused (dry run)")}
	}
	return nil
}
