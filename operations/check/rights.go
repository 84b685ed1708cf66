package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// right is one that an item needs, in the words of RBAC.
type right struct {
	Verb      string
	Group     string
	Resource  string
	Namespace string // empty for the whole cluster
	Name      string // empty for any
}

// String is how kubectl auth can-i takes it.
func (r right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// readError says what could not be read.
type readError struct {
	right
	err error
}

func (e *readError) Error() string { return fmt.Sprintf("%s: %v", e.right, e.err) }

func (e *readError) Unwrap() error { return e.err }

// unread wraps the error of a request with the right that it needs. It is nil
// for nil.
func unread(err error, needs right) error {
	if err == nil {
		return nil
	}
	return &readError{needs, err}
}

// forbidden tells whether the person who asks has no right to read it.
func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// skipped is the finding of an item that could not be read.
func skipped(err error) []Finding {
	var read *readError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return []Finding{finding(Skip, "", "not looked at: the time is up (%v)", err).With("give it longer with --timeout")}
	case forbidden(err) && errors.As(err, &read):
		return []Finding{finding(Skip, read.Namespace, "not looked at: you have no right to %s", read.right).
			With("ask someone who has, or for the role in docs/check.md")}
	}
	return []Finding{finding(Skip, "", "not looked at: %v", err)}
}

// readingRights are what the items need to look at everything; own is the
// namespace of Stategraft, namespace the one that was asked for.
func readingRights(own, namespace string) []right {
	const registration = "admissionregistration.k8s.io"
	rights := []right{
		{Verb: "list", Group: registration, Resource: "mutatingwebhookconfigurations"},
		{Verb: "get", Group: registration, Resource: "validatingadmissionpolicies"},
		{Verb: "list", Group: registration, Resource: "validatingadmissionpolicybindings"},
		{Verb: "get", Group: crdResource.Group, Resource: crdResource.Resource},
		{Verb: "list", Resource: "nodes"},
		{Verb: "list", Group: "apps", Resource: "deployments", Namespace: own},
		{Verb: "list", Resource: "pods", Namespace: own},
		{Verb: "get", Resource: "configmaps", Namespace: own},
		{Verb: "get", Resource: "secrets", Namespace: own},
		{Verb: "list", Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: own},
	}
	if namespace == "" {
		rights = append(rights, right{Verb: "list", Resource: "namespaces"})
	} else {
		rights = append(rights, right{Verb: "get", Resource: "namespaces", Name: namespace})
	}
	for _, r := range []right{
		{Verb: "create", Resource: "pods"}, // the dry run
		{Verb: "get", Resource: "pods"}, {Verb: "list", Resource: "pods"}, {Verb: "list", Resource: "services"}, {Verb: "get", Resource: "configmaps"}, {Verb: "get", Resource: "secrets"},
		{Verb: "list", Resource: "resourcequotas"}, {Verb: "list", Resource: "limitranges"}, {Verb: "list", Resource: "events"},
		{Verb: "list", Group: "apps", Resource: "statefulsets"}, {Verb: "list", Group: api.Group, Resource: restoreResource.Resource},
		{Verb: "list", Group: api.Group, Resource: backupResource.Resource}, {Verb: "list", Group: api.Group, Resource: scheduleResource.Resource},
	} {
		r.Namespace = namespace
		rights = append(rights, r)
	}
	return rights
}

// installingRights are what an installation creates.
func installingRights() []right {
	var rights []right
	for _, r := range []right{
		{Resource: "namespaces"},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
		{Group: "apps", Resource: "deployments", Namespace: DefaultNamespace},
		{Resource: "secrets", Namespace: DefaultNamespace},
	} {
		r.Verb = "create"
		rights = append(rights, r)
	}
	return rights
}

// mayI asks the API server about one right.
func (c *Cluster) mayI(ctx context.Context, r right) (bool, error) {
	review, err := c.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}}}, metav1.CreateOptions{})
	if err != nil {
		return false, unread(err, right{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"})
	}
	return review.Status.Allowed, nil
}

func lookRights(ctx context.Context, c *Cluster) []Finding {
	found := c.installation(ctx)
	needed := readingRights(found.Namespace, c.Namespace)
	if found.Mode() == Preflight {
		needed = installingRights()
	}
	var missing []right
	for _, r := range needed {
		ok, err := c.mayI(ctx, r)
		if err != nil {
			return skipped(err)
		}
		if !ok {
			missing = append(missing, r)
		}
	}
	return judgeRights(missing, found.Mode())
}

// judgeRights says what a person without the rights cannot do. Before the
// installation that is to install; afterwards the items that need them say so
// themselves.
func judgeRights(missing []right, mode Mode) []Finding {
	switch {
	case len(missing) == 0 && mode == Preflight:
		return []Finding{finding(OK, "", "you may install it")}
	case len(missing) == 0:
		return []Finding{finding(OK, "", "you may look at everything")}
	}
	var texts []string
	for _, r := range missing {
		texts = append(texts, r.String())
	}
	slices.Sort(texts)
	list := strings.Join(slices.Compact(texts), ", ")
	if mode == Preflight {
		return []Finding{finding(Fail, "", "you may not: %s", list).With("have somebody install it who may, such as a cluster admin")}
	}
	return []Finding{finding(Info, "", "you may not: %s", list).With("items below that need it are skipped; docs/check.md has a role with all of it")}
}
