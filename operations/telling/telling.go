// Package telling has what all who write events have in common.
package telling

import (
	"crypto/sha256"
	"encoding/hex"
)

// Action is the action of an event with a note. client-go's recorder takes an event that
// differs from another in its note only for the same once more, counts it up, and drops
// the note (k8s.io/client-go/tools/events, eventKey): the action tells them apart.
func Action(name, note string) string {
	sum := sha256.Sum256([]byte(note))
	return name + "-" + hex.EncodeToString(sum[:4])
}
