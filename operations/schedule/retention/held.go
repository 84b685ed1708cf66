package retention

import (
	"fmt"
	"strings"
	"time"
)

// listAge is how old a listing may be that something is deleted by.
const listAge = 15 * time.Minute

// held is why nothing is deleted for now, in words too. Items are the newest first.
func held(s Storage, items []Item, now time.Time) (Hold, string) {
	if s.Failed != "" {
		return ListFailed, "the storage cannot be listed: " + s.Failed
	}
	if age := now.Sub(s.Listed); age > listAge || age < -clockSlack {
		return ListOld, "the storage was not listed in the last " + period(listAge)
	}
	var active, going []string
	var known, there int
	newest := ""
	for _, it := range items {
		switch {
		case it.State == Active:
			active = append(active, it.Name)
		case it.State == Deleting:
			going = append(going, it.Name)
		case whole(it):
			if known++; it.Listed {
				there++
			} else if known == 1 {
				newest = it.Name
			}
		}
	}
	switch {
	case known > 0 && there == 0:
		return ListEmpty, fmt.Sprintf("the storage shows none of %s: has its bucket, prefix or login changed?", count(known))
	case newest != "":
		return ListShort, fmt.Sprintf("the storage does not show backup %s, the newest complete one", newest)
	case 2*there < known:
		return ListShort, fmt.Sprintf("the storage shows only %d of %s", there, count(known))
	case len(active) > 0:
		return BackupActive, "backup " + few(active) + " of the cluster is not over, and what it refers to could be deleted under it"
	case len(going) > 0:
		return DeletionRuns, "backup " + few(going) + " is being deleted"
	}
	for _, it := range items {
		if it.State != Missing && strings.HasPrefix(it.Name, dataFolder) {
			return NameUnsafe, fmt.Sprintf("backup %[1]s would lose its files by the deletion of any other, as its name begins like Medusa's folder %[2]s. Until it is gone from the storage nothing is deleted: when it is not needed any more, or has been copied elsewhere, delete in the bucket, below the prefix, the folder %[1]s of each node and index/backup_index/%[1]s", it.Name, dataFolder)
		}
	}
	return "", ""
}

func count(n int) string {
	if n == 1 {
		return "the one complete backup"
	}
	return fmt.Sprintf("the %d complete backups", n)
}
