package schedule

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Delay is by how much the runs of a schedule come after their time, below a limit:
// so that a hundred schedules at midnight do not start a hundred backups at once.
// It is the same at each run and after each start of the controller, as it comes
// from the UID of the object, and so the runs keep their distance.
func Delay(uid string, limit time.Duration) time.Duration {
	seconds := uint64(limit / time.Second)
	if limit <= 0 || seconds == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(uid))
	sum := h.Sum64()
	// FNV leaves its high bits alike for UIDs that differ in their last letters.
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return time.Duration(sum%seconds) * time.Second
}

const (
	stampLayout = "20060102-150405"
	// maxName is that of a label's value, which a backup's name may have to be.
	maxName = 63
)

// Name is that of the backup which a schedule makes for a time. It follows from the
// time that was meant, not from when it is made: a controller that ended before it
// noted what it had made finds it there, and makes no second one.
//
// Names of one schedule are of one width, so that none is the beginning of another:
// Medusa deletes by the beginning of a name. What begins like its folder data would
// lose its files with the deletion of any other (see retention.SafeName).
func Name(schedule string, scheduled time.Time) string {
	room := maxName - 1 - len(stampLayout)
	if unsafe := strings.HasPrefix(schedule, "data"); unsafe || len(schedule) > room {
		h := fnv.New32a()
		h.Write([]byte(schedule))
		if unsafe {
			schedule = "b-" + schedule
		}
		schedule = strings.TrimRight(schedule[:min(len(schedule), room-9)], "-.") + fmt.Sprintf("-%08x", h.Sum32())
	}
	return schedule + "-" + scheduled.UTC().Format(stampLayout)
}
