// Package annotated makes BackupSchedules of the annotations stategraft.io/backup-schedule
// and retain, of pods or of their namespace: one for each cluster of injected pods.
//
//	wish.go        what the annotations ask for; pure
//	bad.go         values that cannot be followed: each is told once
//	cluster.go     workloads, and those that are one cluster; pure
//	selector.go    labels that all pods of a cluster have and no others; pure
//	build.go       the BackupSchedule that is asked for, and its name; pure
//	annotated.go   Options, Add
//	reconcile.go   a namespace: what is made, changed and deleted
//	orphans.go     what was made for clusters that have gone
//	gather.go      reading, and asking sidecars which cluster they are of
//	effects.go     what is written: BackupSchedules, events
//
// What was made has the label api.LabelAnnotated; a BackupSchedule without it is left
// alone. Of one that was made only what follows from the annotations is kept up to date:
// who suspends it, or has it verify, finds it so. When the annotation has gone it is
// deleted, which deletes no Backup.
//
// A cluster may have several workloads, as with a StatefulSet for each rack, and a backup
// is whole only with all of its nodes. Where a namespace has more than one workload, a
// sidecar of each is asked below which prefix it stores: that is the cluster.
package annotated
