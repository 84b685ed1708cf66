package patches

import (
	"fmt"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const fallbackToLogs = "FallbackToLogsOnError"

// cassandraRestore puts the two init containers of a restore after the user's
// own, or before the one that already starts the database.
func (b *builder) cassandraRestore() {
	setup := b.agent(ContainerSetup, []string{AgentInImage, "setup"})
	setup.TerminationMessagePolicy = fallbackToLogs
	if b.mustOwn() {
		setup.VolumeMounts = append(setup.VolumeMounts, like(b.w.Data, false))
		setup.Env = append(setup.Env, b.subPathEnv(b.w.Data)...)
		setup.Env = append(setup.Env, value("STATEGRAFT_OWNER", fmt.Sprintf("%d:%d", b.w.UID, b.w.GID)))
		setup.SecurityContext = b.owning()
	}
	b.init(setup)

	// No shell and no waiting: without the agent the container fails, and the
	// database does not start without the restore that was asked for.
	restore := b.medusaContainer(ContainerRestore, []string{AgentShared, "medusa", "restore"}, false)
	restore.TerminationMessagePolicy = fallbackToLogs
	restore.Env = append(restore.Env, nonEmpty([]EnvVar{
		value(EnvBackup, b.s.Restore),
		value("STATEGRAFT_RESTORE_SOURCE", b.s.RestoreSource),
		value("STATEGRAFT_DATA_MOUNT", b.w.Data.Path),
		value("STATEGRAFT_DATA_DIRECTORY", b.w.DataDir),
		value("STATEGRAFT_COMMITLOG_DIRECTORY", b.w.Commitlog),
		value("MEDUSA_TMP_DIR", b.w.Data.Path), // on the data volume, so that moving the files is a rename
	})...)
	b.init(restore)
}

// restoreMatches checks that a restore container which the pod brings along is
// the one that is asked for.
func (b *builder) restoreMatches() error {
	if b.s.Restore == "" {
		return nil
	}
	for i := range b.pod.Spec.InitContainers {
		c := &b.pod.Spec.InitContainers[i]
		if c.Name != ContainerRestore {
			continue
		}
		if backup, _ := c.Variable(EnvBackup); backup != b.s.Restore {
			return &Conflict{"bad-annotation", fmt.Sprintf("the pod already has a container %s for backup %q, but annotation %s asks for %q; remove the container from the template",
				ContainerRestore, clip(backup), api.AnnotationRestore, b.s.Restore)}
		}
	}
	return nil
}

// clip keeps what a user wrote from filling a message.
func clip(text string) string {
	if len(text) > 64 {
		return text[:64] + "…"
	}
	return text
}
