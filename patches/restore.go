package patches

import (
	"fmt"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

const fallbackToLogs = "FallbackToLogsOnError"

// cassandraRestore puts the two init containers of a restore after the user's
// own, or before the one that already starts the database.
func (b *builder) cassandraRestore() {
	setup := b.agent(ContainerSetup, []string{AgentInImage, "setup"})
	setup.TerminationMessagePolicy = fallbackToLogs
	if b.mustOwn() {
		setup.VolumeMounts = append(setup.VolumeMounts, like(b.w.Data, false))
		setup.Env = append(setup.Env, value("STATEGRAFT_OWNER", fmt.Sprintf("%d:%d", b.w.UID, b.w.GID)))
		setup.SecurityContext = b.owning()
	}
	if action, ok := variable(b.request(), EnvRestoreAction); ok {
		setup.Env = append(setup.Env, action) // then it needs no medusa.ini
	}
	b.init(setup)

	// No shell and no waiting: without the agent the container fails, and the
	// database does not start without the restore that was asked for.
	restore := b.medusaContainer(ContainerRestore, []string{AgentShared, "medusa", "restore"}, false)
	restore.TerminationMessagePolicy = fallbackToLogs
	restore.Env = append(append(restore.Env, b.request()...), nonEmpty([]EnvVar{
		value("STATEGRAFT_DATA_MOUNT", b.w.Data.Path),
		value("STATEGRAFT_DATA_DIRECTORY", b.w.DataDir),
		value("STATEGRAFT_COMMITLOG_DIRECTORY", b.w.Commitlog),
		value("STATEGRAFT_SAVED_CACHES_DIRECTORY", b.w.SavedCaches),
		value("MEDUSA_TMP_DIR", b.w.Data.Path), // on the data volume, so that moving the files is a rename
	})...)
	b.node(restore)
	b.init(restore)
}

// request are the variables that say what is to be restored.
func (b *builder) request() []EnvVar {
	if b.s.Order.Pending {
		return b.orderEnv()
	}
	return nonEmpty([]EnvVar{value(EnvBackup, b.s.Restore), value(EnvRestoreSource, b.s.RestoreSource)})
}

// restoreMatches checks that a restore container which the pod brings along is
// the one that is asked for, and that its names are free where it does not. The
// policies in the API server ask for the same (deploy/chart/templates/admission).
func (b *builder) restoreMatches() error {
	if !b.s.Restores() {
		return nil
	}
	for _, name := range [...]string{ContainerSetup, ContainerRestore} {
		if has(b.pod.Spec.Containers, name) {
			return &Conflict{workload.ReasonBadAnnotation, fmt.Sprintf("%s needs an init container %s, and the pod has an ordinary container of that name; remove it from the template",
				b.asker(), name)}
		}
	}
	for i := range b.pod.Spec.InitContainers {
		c := &b.pod.Spec.InitContainers[i]
		if c.Name == ContainerRestore && (c.RestartPolicy == "Always" || !runsAgent(c.Command) || !b.asksForAll(c)) {
			return &Conflict{workload.ReasonBadAnnotation, fmt.Sprintf("the pod already has a container %s that is not Stategraft's for %s; remove the container from the template",
				ContainerRestore, b.asker())}
		}
	}
	return nil
}

// asker names what asks for the restore.
func (b *builder) asker() string {
	if b.s.Order.Pending {
		return fmt.Sprintf("Restore %s (request %s)", workload.Short(b.s.Order.Restore), workload.Short(b.s.Order.ID))
	}
	return fmt.Sprintf("backup %q of annotation %s (and its source)", b.s.Restore, api.AnnotationRestore)
}

// asksForAll tells whether the container restores what is asked for, and nothing
// else.
func (b *builder) asksForAll(c *workload.Container) bool {
	wanted := b.request()
	for _, name := range restoreEnv {
		v, _ := variable(wanted, name)
		if !asksFor(c, name, v.Value) {
			return false
		}
	}
	return true
}

// asksFor tells whether a variable of the container has the value: of one that
// is there twice the last counts, so all have to agree. An empty value is the
// same as none.
func asksFor(c *workload.Container, name, value string) bool {
	found := value == ""
	for i := range c.Env {
		if c.Env[i].Name == name {
			found = true
			if c.Env[i].Value != value {
				return false
			}
		}
	}
	return found
}
