package scheduler

import (
	"fmt"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

// The reasons of the condition Accepted.
const (
	ReasonAccepted        = "Accepted"
	ReasonInvalidSchedule = "InvalidSchedule"
	ReasonInvalidPeriod   = "InvalidPeriod"
)

// asked is what a BackupSchedule asks for.
type asked struct {
	spec   schedule.Spec
	policy *retention.Policy // nil keeps all
}

// problem is why a spec cannot be followed.
type problem struct {
	reason, message string
}

// read reads a spec. Since is what is known of its beginning.
func read(s *api.BackupSchedule, since time.Time) (asked, *problem) {
	cron, err := schedule.Parse(s.Spec.Schedule, s.Spec.TimeZone)
	if err != nil {
		return asked{}, &problem{ReasonInvalidSchedule, err.Error()}
	}
	a := asked{spec: schedule.Spec{Cron: cron, UID: string(s.UID), Concurrency: schedule.Forbid, Suspend: s.Spec.Suspend, Since: since}}
	if s.Spec.ConcurrencyPolicy == api.ConcurrencyReplace {
		a.spec.Concurrency = schedule.Replace
	}
	if s.Spec.Jitter != nil {
		a.spec.Jitter = s.Spec.Jitter.Duration
	}
	if s.Spec.StartingDeadline != nil {
		a.spec.StartingDeadline = &s.Spec.StartingDeadline.Duration
	}
	if r := s.Spec.Retention; r != nil {
		p, err := policy(r)
		if err != nil {
			return asked{}, &problem{ReasonInvalidPeriod, err.Error()}
		}
		p.Zone = cron.Location()
		a.policy = p
	}
	return a, nil
}

func policy(r *api.BackupRetention) (*retention.Policy, error) {
	p := &retention.Policy{Last: count(r.KeepLast), Daily: count(r.KeepDaily), Weekly: count(r.KeepWeekly), Monthly: count(r.KeepMonthly), DryRun: r.DryRun}
	for _, period := range []struct {
		field string
		text  api.Period
		to    *time.Duration
	}{{"keepWithin", r.KeepWithin, &p.Within}, {"incomplete", r.Incomplete, &p.Incomplete}} {
		if period.text == "" {
			continue
		}
		d, err := api.ParsePeriod(string(period.text))
		if err != nil {
			return nil, fmt.Errorf("retention.%s: %w", period.field, err)
		}
		*period.to = d
	}
	return p, nil
}

func count(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// suspended is the status.of of a schedule that is.
const suspended = "suspended"

// of says in short what a schedule is: with another, no run of a time before is made up
// for.
func of(s *api.BackupSchedule) string {
	if s.Spec.Suspend {
		return suspended
	}
	zone := s.Spec.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	return s.Spec.Schedule + " " + zone
}
