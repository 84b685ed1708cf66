// Package schedule says when a BackupSchedule makes its next backup. All of it is
// pure: no client, no clock, no randomness.
//
//	cron.go, field.go   what a cron expression means, and what is said of a bad one
//	next.go             the runs of an expression in a time zone, clock changes included
//	zone.go             time zones
//	spread.go           the delay of a schedule, and the names of its backups
//	decide.go           Decide: run, skip or wait, and why
//
// What is deleted afterwards is decided in the package retention.
package schedule
