// Package retention says which backups of a schedule are kept, which are deleted, and
// why. It is pure, and it decides in favour of keeping: what it is not sure of, it
// keeps, and where what it is told cannot be right, it deletes nothing.
//
//	retention.go  what it is told, and what it says
//	keep.go       Keep: the rules, for one backup after another
//	held.go       why nothing is deleted for now
//	names.go      backups that another's deletion would take along
//	say.go        the reasons in words
//
// Who deletes does one at a time, and asks again before the next: in between a backup
// may have begun, or the newest one may have gone.
package retention

import "time"

// State is what is known of a backup.
type State string

// The states.
const (
	// Active is one that is being made, or waits to be.
	Active State = "Active"
	// Complete is one with all its pods. Without objects it counts as Incomplete.
	Complete State = "Complete"
	// Incomplete is one that ended otherwise: partial, failed, cancelled.
	Incomplete State = "Incomplete"
	// Deleting is one whose data are being deleted.
	Deleting State = "Deleting"
	// Missing is one whose data are known to have gone.
	Missing State = "Missing"
)

// Item is a backup of the cluster.
type Item struct {
	// Name is that in the storage.
	Name string
	// When it began.
	When    time.Time
	State   State
	Objects int64
	// Listed says that the listing of the storage has it.
	Listed bool
	// Own says that the schedule made it whose rules these are. Others are never
	// deleted, but count where the cluster does.
	Own      bool
	Pinned   bool
	Verified bool   // it was restored on trial, and held what it should
	UsedBy   string // what reads it, such as Restore x
}

// Storage is what is known of the backups of one cluster. All have to be in it, also
// those of other schedules and of people.
type Storage struct {
	Items []Item
	// Listed is when the storage was listed; Failed, why it could not be.
	Listed time.Time
	Failed string
}

// Policy is a BackupRetention. Each rule keeps some of the complete backups, and what
// any of them keeps is kept; without a rule all are.
type Policy struct {
	Last                   int
	Within                 time.Duration // before the newest complete one
	Daily, Weekly, Monthly int           // the newest of each of so many that have one
	Zone                   *time.Location
	// Incomplete is how old those that are not complete become; 0, as old as they like.
	Incomplete time.Duration
	DryRun     bool
}

// Reason is why a backup is kept or deleted. There are no others, so that it can be
// the label of a metric.
type Reason string

// The reasons to keep a backup. A rule's reason stands beside others.
const (
	KeptNewest    Reason = "NewestComplete"
	KeptVerified  Reason = "NewestVerified"
	KeptLast      Reason = "Last"
	KeptWithin    Reason = "Within"
	KeptDaily     Reason = "Daily"
	KeptWeekly    Reason = "Weekly"
	KeptMonthly   Reason = "Monthly"
	KeptNoRule    Reason = "NoRule"    // nothing says what is to go
	KeptPinned    Reason = "Pinned"    // by somebody
	KeptInUse     Reason = "InUse"     // something reads it
	KeptForeign   Reason = "Foreign"   // not of this schedule
	KeptActive    Reason = "Active"    // not over
	KeptGoing     Reason = "Going"     // being deleted already
	KeptMissing   Reason = "Missing"   // there is nothing to delete
	KeptUndated   Reason = "Undated"   // nobody knows how old it is, or it is of the future
	KeptYoung     Reason = "Young"     // incomplete, but not for long
	KeptOnly      Reason = "Only"      // incomplete, but no complete one is newer
	KeptBeginning Reason = "Beginning" // its name is the beginning of another's, which would go too
)

// The reasons to delete one.
const (
	Expired   Reason = "Expired"   // complete, and no rule keeps it
	Abandoned Reason = "Abandoned" // incomplete for too long, and a newer one is complete
)

// Hold is why nothing is deleted for now, whatever the rules say.
type Hold string

// The holds.
const (
	ListFailed   Hold = "ListFailed"   // the storage cannot be listed
	ListOld      Hold = "ListOld"      // it was listed too long ago
	ListEmpty    Hold = "ListEmpty"    // it shows nothing of what has to be there
	ListShort    Hold = "ListShort"    // it lacks the newest, or most
	BackupActive Hold = "BackupActive" // purge racing a backup: medusa#363
	DeletionRuns Hold = "DeletionRuns" // one at a time
	NameUnsafe   Hold = "NameUnsafe"   // any deletion would take a backup along
)

// Decision is what becomes of a backup. For one that is held, or in a dry run, it is
// what would become of it.
type Decision struct {
	Item
	Delete  bool
	Reasons []Reason // one, if it is deleted
	Message string
}

// Result is what becomes of all.
type Result struct {
	// Decisions are of all items, the newest first.
	Decisions []Decision
	// Held says why nothing is deleted now; "" if it is. Waits says it in words.
	Held   Hold
	Waits  string
	DryRun bool
}

// Would are the decisions to delete, the oldest first, whether held or not.
func (r Result) Would() (out []Decision) {
	for i := len(r.Decisions) - 1; i >= 0; i-- {
		if r.Decisions[i].Delete {
			out = append(out, r.Decisions[i])
		}
	}
	return out
}

// Deletes is what may be deleted now: Would, unless held or in a dry run.
func (r Result) Deletes() []Decision {
	if r.Held != "" || r.DryRun {
		return nil
	}
	return r.Would()
}
