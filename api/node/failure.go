package node

import (
	"slices"
	"strings"
)

// Cause is why a restore container failed, where it is the backup that is to blame. A
// storage that was not reached, or a volume without room, has none. It is a closed set.
type Cause string

// The causes.
const (
	CauseNone       Cause = ""
	CauseNoBackup   Cause = "NoBackup"   // the storage has no such backup, or nothing of the node
	CauseUnfinished Cause = "Unfinished" // the node's part was not finished, or has nothing in it
	CauseLost       Cause = "Lost"       // a file of the backup is not in the storage, or is another
)

// Causes are all there are, but CauseNone.
func Causes() []Cause { return []Cause{CauseNoBackup, CauseUnfinished, CauseLost} }

// The last line of a termination message has the cause between these.
const (
	causeBefore = "(cause: "
	causeAfter  = ")"
)

// longestFailure is of a failure's text, in bytes: less than what kubelet keeps.
const longestFailure = 3500

// Failure is the termination message of a restore container that failed: why, for
// people, and its cause in a last line, where there is one.
func Failure(text string, cause Cause) string {
	text = clip(text, longestFailure)
	if cause == CauseNone {
		return text
	}
	return text + "\n" + causeBefore + string(cause) + causeAfter
}

// ParseFailure reads what Failure wrote. A cause that is not known is none.
func ParseFailure(message string) (text string, cause Cause) {
	message = strings.TrimRight(message, "\n")
	at := strings.LastIndexByte(message, '\n')
	code, ok := strings.CutPrefix(message[at+1:], causeBefore)
	code, closed := strings.CutSuffix(code, causeAfter)
	if at < 0 || !ok || !closed {
		return message, CauseNone
	}
	cause = Cause(code)
	if !slices.Contains(Causes(), cause) {
		cause = CauseNone
	}
	return message[:at], cause
}
