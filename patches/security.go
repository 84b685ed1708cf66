package patches

import "github.com/stategraft/stategraft/workload"

var (
	noCapabilities    = &Capabilities{Drop: []string{"ALL"}}
	ownerCapabilities = &Capabilities{Add: []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}, Drop: []string{"ALL"}}
	runtimeDefault    = &SeccompProfile{Type: "RuntimeDefault"}
)

// security is a security context that the restricted Pod Security Standard
// accepts, with the user that owns the database's files.
func (b *builder) security() *SecurityContext {
	sc := &SecurityContext{
		RunAsUser: b.w.UID, RunAsGroup: b.w.GID, RunAsNonRoot: true,
		ReadOnlyRootFilesystem: true,
		Capabilities:           noCapabilities,
		SeccompProfile:         runtimeDefault,
	}
	// A label on the container alone has to be the same for all that share its
	// volumes, or SELinux keeps them apart.
	if c := b.main(); c != nil && len(c.Security.SELinuxOptions) > 2 && c.Security.SELinuxOptions[0] == '{' {
		sc.SELinuxOptions = c.Security.SELinuxOptions
	}
	return sc
}

// owning is root with the few capabilities that giving a fresh volume to the
// database's user takes. It is only used beside a database that starts as root
// itself, so the pod is not restricted by it.
func (b *builder) owning() *SecurityContext {
	sc := *b.ordinary
	sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot = 0, 0, false
	sc.Capabilities = ownerCapabilities
	return &sc
}

// main is the database's container, or nil where several are equal.
func (b *builder) main() *workload.Container {
	if b.w.Index < 0 || b.w.Index >= len(b.pod.Spec.Containers) {
		return nil
	}
	return &b.pod.Spec.Containers[b.w.Index]
}

// mustOwn tells whether a fresh volume may belong to root when our init
// containers run: the database would give it to its user itself, but later.
func (b *builder) mustOwn() bool {
	return b.w.StartsRoot && b.pod.Spec.Security.FSGroup == nil
}
