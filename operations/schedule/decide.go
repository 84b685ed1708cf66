package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Concurrency is what is done when a run is due and the one before goes on. There is
// no Allow: two backups of one node at a time are slower than one after the other,
// and what they have in common is stored by a race.
type Concurrency string

// The values of Concurrency.
const (
	// Forbid waits until it is over, or until it is too late.
	Forbid Concurrency = "Forbid"
	// Replace cancels it.
	Replace Concurrency = "Replace"
)

// Spec is what a BackupSchedule asks for.
type Spec struct {
	Cron   *Cron
	UID    string
	Jitter time.Duration
	// StartingDeadline is how late a run may begin; nil, as late as it comes.
	StartingDeadline *time.Duration
	Concurrency      Concurrency
	Suspend          bool
	// Since is when the schedule began to be what it is: its creation, the last
	// change of its expression or zone, the last resume. Runs before are not overdue:
	// nothing is made because an object was created, changed or resumed.
	Since time.Time
}

// Active is a backup of the same cluster that is not over.
type Active struct {
	Name    string
	Started time.Time
	// Until is when it has to be over by its own timeout. Later it is stuck.
	Until time.Time
	// Foreign says that it is not of this schedule: it is waited for, but not cancelled.
	Foreign bool
}

// State is what is there at the moment.
type State struct {
	// Last is the time of the last run that was made or skipped: of the run, not of
	// its making. It is Decision.Scheduled of then.
	Last   time.Time
	Active []Active
	// Deleting says that data of the cluster's backups are being deleted. A backup
	// next to it loses what both have a hand on (medusa#363). It is not waited for with
	// a limit of its own: whoever deletes has one.
	Deleting bool
}

// Action is what there is to do.
type Action string

// The actions.
const (
	// Run makes the backup of Scheduled, after cancelling what is in Cancel.
	Run Action = "Run"
	// Skip notes Scheduled as done, without a backup.
	Skip Action = "Skip"
	// Wait does nothing until At.
	Wait Action = "Wait"
)

// Reason is why. There are no others, so that it can be the label of a metric.
type Reason string

// The reasons.
const (
	Due       Reason = "Due"       // Run: it is time
	Overdue   Reason = "Overdue"   // Run: it was time a while ago, once for all that were missed
	TooLate   Reason = "TooLate"   // Skip: by startingDeadline
	NotYet    Reason = "NotYet"    // Wait
	Suspended Reason = "Suspended" // Wait
	Busy      Reason = "Busy"      // Wait: for a backup of the cluster
	Cleaning  Reason = "Cleaning"  // Wait: for a deletion
)

// Decision is what a schedule does next.
type Decision struct {
	Action  Action
	Reason  Reason
	Message string
	// Scheduled is the run's time: to be kept as State.Last after Run and Skip, and
	// to be the time that Name is called with.
	Scheduled time.Time
	// At is when to ask again, if nothing happens before; zero: only if something does.
	At time.Time
	// Next is when the run after this one begins, for people.
	Next time.Time
	// Missed is how many runs before Scheduled were not made, counted up to 100.
	Missed int
	// Cancel are backups to be ended: stuck ones, and with Replace those that go on.
	Cancel []string
}

const (
	// onTime is how late a run may be without being called overdue.
	onTime = time.Minute
	// clockSlack is how far two controllers' clocks may be apart. A Last or Since beyond
	// is an error of a clock or a hand, and would keep a schedule from running until then.
	clockSlack = time.Hour
	// retry is when to look again at what has no known end.
	retry       = time.Minute
	countLimit  = 100
	timeForText = "2006-01-02 15:04 MST"
)

// Decide says what a schedule does now. However many runs were missed, it makes one.
func Decide(now time.Time, spec Spec, state State) Decision {
	if spec.Suspend {
		return Decision{Action: Wait, Reason: Suspended, Message: "suspended: no backup is made until suspend is false"}
	}
	delay := Delay(spec.UID, spec.Jitter)
	var since time.Time
	for _, t := range []time.Time{spec.Since, state.Last} {
		if t.After(since) && !t.After(now.Add(clockSlack)) {
			since = t
		}
	}
	// Times without the delay, as the expression has them.
	at := now.Add(-delay)
	due, ok := spec.Cron.Latest(since, at)
	if !ok {
		next := spec.Cron.Next(latest(since, at)).Add(delay)
		return Decision{Action: Wait, Reason: NotYet, Message: "next at " + spec.say(next), At: next, Next: next}
	}
	d := Decision{Scheduled: due, Next: spec.Cron.Next(at).Add(delay), Missed: spec.missed(since, due)}
	late := at.Sub(due)
	if limit := spec.StartingDeadline; limit != nil && late > *limit {
		d.Action, d.Reason, d.At = Skip, TooLate, d.Next
		d.Message = fmt.Sprintf("the backup of %s is left out: %s late, and startingDeadline is %s", spec.say(due.Add(delay)), short(late), *limit)
		return d
	}
	what := "the backup of " + spec.say(due.Add(delay))
	d.Action, d.Reason, d.Message = Run, Due, what
	if late >= onTime {
		d.Reason = Overdue
		d.Message += fmt.Sprintf(", %s late", short(late))
	}
	if d.Missed > 0 {
		d.Message += fmt.Sprintf(", in place of %s more that %s missed", atMost(d.Missed), plural(d.Missed, "was", "were"))
	}
	d.yield(now, spec, state, what)
	if limit := spec.StartingDeadline; d.Action == Wait && limit != nil {
		d.At = earliest(d.At, due.Add(delay).Add(*limit).Add(time.Second))
	}
	return d
}

// yield lets what goes on in the cluster come first. While it waits the message stays
// as it is: a status that has it is not written each minute.
func (d *Decision) yield(now time.Time, spec Spec, state State, what string) {
	var busy, replaced []Active
	for _, a := range state.Active {
		switch stuck := !a.Until.IsZero() && now.After(a.Until); {
		case stuck && a.Foreign: // another's to end; it does not hold us up for ever
		case stuck:
			d.Cancel = append(d.Cancel, a.Name)
		case spec.Concurrency == Replace && !a.Foreign:
			replaced = append(replaced, a)
		default:
			busy = append(busy, a)
		}
	}
	if len(busy) == 0 && !state.Deleting { // else it would be ended for nothing
		for _, a := range replaced {
			d.Cancel = append(d.Cancel, a.Name)
		}
	}
	slices.Sort(d.Cancel)
	switch {
	case state.Deleting:
		d.Action, d.Reason, d.At = Wait, Cleaning, now.Add(retry)
		d.Message = "waits for the deletion of backups: " + what
	case len(busy) > 0:
		first := slices.MinFunc(busy, func(a, b Active) int {
			return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Name, b.Name))
		})
		d.Action, d.Reason, d.At = Wait, Busy, now.Add(retry)
		for _, a := range busy { // what is stuck is seen the moment it is
			if !a.Until.IsZero() {
				d.At = earliest(d.At, a.Until.Add(time.Second))
			}
		}
		d.Message = fmt.Sprintf("waits for backup %s, which began at %s: %s", first.Name, spec.say(first.Started), what)
	}
}

// missed is how many runs there were after since and before one that is due.
func (s Spec) missed(since, due time.Time) int {
	return s.Cron.Count(since, due.Add(-time.Second), countLimit)
}

func (s Spec) say(t time.Time) string { return t.In(s.Cron.zone).Format(timeForText) }

func atMost(n int) string {
	if n >= countLimit {
		return fmt.Sprintf("%d or", n)
	}
	return fmt.Sprint(n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// short is a duration without what nobody reads.
func short(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return d.Truncate(time.Minute).String()
	}
	return d.Truncate(time.Second).String()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
