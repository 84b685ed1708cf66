// Package verify restores backups on trial: of a BackupSchedule with spec.verify the
// newest complete Backup, a node of it at a time, into a pod of its own, in which its
// files are read with the database's own tools (agent/verify).
//
//	plan.go      when, which Backup, which nodes; pure
//	pod.go       what the pod is like; pure
//	like.go      the pod that it is made after
//	look.go      how far such a pod is; pure
//	course.go    what becomes of a verification; pure
//	schedule.go  the controller of schedules: begins them, tells of the last
//	backup.go    the controller of Backups: takes those that run to their end
//	sweep.go     pods that no verification is about
//	add.go, world.go, events.go, metrics.go
//
// A verification is Backup.status.verified with the result Running, and a pod whose
// name follows from that. The status is written before the pod is made, and what a pod
// has found before it is deleted: the controller may end at any instant. The cluster
// is not touched: the pod has none of its labels, joins no ring, and has limits.
package verify
