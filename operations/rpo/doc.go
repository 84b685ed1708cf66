// Package rpo tells how old the last complete backup of each pod is, and whether that
// is older than it may be (api.AnnotationRPO, or what follows from its schedule).
//
//	row.go, pod.go      Rows: what there is to tell of each pod; pure, and shared with
//	                    the command line
//	history.go          the Backups that a pod is in
//	covers.go           the BackupSchedules that a pod is in, and their longest gap
//	judge.go            how old the last one may be, and whether it is older
//	workload.go         rows of a workload and of a schedule together; pure
//	controller.go       Options, Add: looks at all of it every half a minute
//	gather.go           what it looks at
//	tell.go             the condition of BackupSchedules, events
//	metrics.go          the gauges
package rpo
