package heal

import (
	"slices"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	firstHold   = time.Hour      // for which a workload is held back at first
	longestHold = 24 * time.Hour // after doubling each time it fails again
	// remembered is how long an entry stays when it is over, so that the next time
	// is longer.
	remembered = 24 * time.Hour

	// The object has to stay below 1 MiB, the limit of a ConfigMap.
	maxEntries = 1000
	maxBytes   = 900_000
)

// ledger is the held back workloads by their keys.
type ledger map[string]api.HeldBack

// parseLedger reads the data of the ConfigMap. What cannot be read is left out,
// and named.
func parseLedger(data map[string]string) (l ledger, broken []string) {
	l = ledger{}
	for key, text := range data {
		if entry, err := api.ParseHeldBack(text); err == nil && entry.Key() == key {
			l[key] = entry
		} else {
			broken = append(broken, key)
		}
	}
	slices.Sort(broken)
	return l, broken
}

func (l ledger) encode() map[string]string {
	data := make(map[string]string, len(l))
	for key, entry := range l {
		data[key] = entry.Encode()
	}
	return data
}

// hold enters a workload that failed; since and until are set here. created is
// when the pod was created that shows it: one from before the webhook knew of the
// entry is the same failure, seen on another replica, one from after it shows that
// it failed again, which doubles the time. It answers whether the ledger was
// changed.
func (l ledger) hold(entry api.HeldBack, created, now time.Time) bool {
	key := entry.Key()
	entry.Since, entry.Until = now.UTC().Truncate(time.Second), now.UTC().Truncate(time.Second).Add(firstHold)
	old, remembered := l[key]
	remembered = remembered && old.Trial == nil
	if remembered && old.Active(now) {
		if !created.After(old.Since.Add(known)) {
			if covers(old, entry) {
				return false
			}
			old.Containers = merge(old.Containers, entry.Containers)
			l[key] = old
			return true
		}
		// Created while the webhook would have left ours out, if it knew them by the
		// names that the pod has now: another webhook rewrites images. Then whatever
		// it would inject counts.
		if covers(old, entry) {
			entry.Containers = nil
		}
	}
	if remembered {
		entry.Until = entry.Since.Add(min(2*old.Until.Sub(old.Since), longestHold))
	}
	l[key] = entry
	return true
}

// covers tells whether all that failed now is held against pods already. An entry
// without containers holds whatever would be injected against them.
func covers(old, entry api.HeldBack) bool {
	return len(old.Containers) == 0 || len(merge(old.Containers, entry.Containers)) == len(old.Containers)
}

// maxFailed bounds the containers of an entry: replicas of one workload may have
// been created with different images.
const maxFailed = 8

func merge(have, more []api.HeldContainer) []api.HeldContainer {
	for _, c := range more {
		if !slices.Contains(have, c) && len(have) < maxFailed {
			have = append(slices.Clip(have), c)
		}
	}
	return have
}

// tidy takes out what is over for long, and then what has to go for want of room:
// what was over first, goes first. Entries that are not over stay, so it may be
// that there is no room. It answers whether the ledger was changed.
func (l ledger) tidy(now time.Time) (changed bool) {
	var over []string
	for key, entry := range l {
		switch {
		case entry.Until.Add(remembered).Before(now):
			delete(l, key)
			changed = true
		case !entry.Active(now):
			over = append(over, key)
		}
	}
	slices.SortFunc(over, func(a, b string) int {
		if c := l[a].Until.Compare(l[b].Until); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, key := range over {
		if l.fits() {
			break
		}
		delete(l, key)
		changed = true
	}
	return changed
}

// fits tells whether the ledger can be written.
func (l ledger) fits() bool {
	if len(l) > maxEntries {
		return false
	}
	size := 0
	for key, entry := range l {
		size += len(key) + len(entry.Encode())
	}
	return size <= maxBytes
}

// active counts the entries that hold pods back at the time, by cause.
func (l ledger) active(now time.Time) map[api.Cause]int {
	count := map[api.Cause]int{}
	for _, entry := range l {
		if entry.Active(now) {
			count[entry.Cause]++
		}
	}
	return count
}
