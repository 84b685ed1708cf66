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

// Name is that of the Backup which a schedule makes for a time. It follows from the
// time that was meant, not from when it is made: a controller that ended before it
// noted what it had made finds it there, and makes no second one. The name in the
// storage has it as its end, from which the schedule is known again after the loss of
// everything.
func Name(schedule string, scheduled time.Time) string {
	room := maxName - 1 - len(stampLayout)
	if len(schedule) > room {
		h := fnv.New32a()
		h.Write([]byte(schedule))
		schedule = strings.TrimRight(schedule[:room-9], "-.") + fmt.Sprintf("-%08x", h.Sum32())
	}
	return schedule + "-" + scheduled.UTC().Format(stampLayout)
}

// Scheduled is the time that a name was made for by Name of the same schedule.
func Scheduled(schedule, name string) (at time.Time, ok bool) {
	if len(name) < len(stampLayout) {
		return time.Time{}, false
	}
	at, err := time.Parse(stampLayout, name[len(name)-len(stampLayout):])
	return at, err == nil && Name(schedule, at) == name
}
