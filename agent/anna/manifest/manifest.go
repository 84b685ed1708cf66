// Package manifest is what a node's part in a backup of Anna says of itself: the object
// that is written last, and without which there is no backup.
package manifest

import (
	"time"

	"github.com/stategraft/stategraft/agent/anna/pack"
)

// Version is what is written.
const Version = 1

// The modes.
const (
	Full         = "full"
	Differential = "differential"
)

// Manifest is a node's part in a backup.
type Manifest struct {
	Version  int       `json:"version"`
	Name     string    `json:"name"`
	Node     string    `json:"node"` // the pod's name
	Cluster  string    `json:"cluster"`
	Role     string    `json:"role"` // memory or ebs
	Mode     string    `json:"mode"` // Full or Differential
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`

	Server  Server   `json:"server"`
	Threads int      `json:"threads"`
	Tier    string   `json:"tier"`    // MEMORY or DISK
	Members []Member `json:"members"` // all of the cluster's, when it was made
	// Nodes are the pods of all KVS members: the first label of their private address,
	// or all of that where it is none.
	Nodes []string `json:"nodes"`

	Keys      int64            `json:"keys"`
	Bytes     int64            `json:"bytes"` // of keys and payloads
	ByLattice map[string]int64 `json:"byLattice"`
	Digest    string           `json:"digest"` // Sum over the records' digests
	Missing   Missing          `json:"missing"`
	Packs     []Pack           `json:"packs"`
	Encrypted bool             `json:"encrypted"`
	Notes     []string         `json:"notes,omitempty"`
	// Folders are the directories that keys with a slash name; of an encrypted backup they
	// are in Sealed, as JSON encrypted with age.
	Folders []string `json:"folders,omitempty"`
	Sealed  []byte   `json:"sealed,omitempty"`

	Checksum string `json:"checksum"` // sha256 of all else, in hex
}

// Server is how a KVS node is known in its cluster.
type Server struct {
	Public  string `json:"public"`
	Private string `json:"private"`
}

// Member is a server in its tier.
type Member struct {
	Tier string `json:"tier"`
	Server
}

// MissingKeys is how many of the missing keys are named at most.
const MissingKeys = 100

// Missing are the keys that the node listed and that are not in its part.
type Missing struct {
	Count int64        `json:"count"`
	Keys  []MissingKey `json:"keys,omitempty"` // the first MissingKeys of them
}

// MissingKey is one of them.
type MissingKey struct {
	Key    string `json:"key"` // quoted where it is not printable
	Reason string `json:"reason"`
}

// Pack is an object with records.
type Pack struct {
	Object  string      `json:"object"` // its full name in the bucket
	Size    int64       `json:"size"`   // of the object, in bytes
	SHA256  string      `json:"sha256"` // of the object, in hex
	Records int64       `json:"records"`
	Plain   int64       `json:"plain"`          // size of all its records before compression
	Used    pack.Bitmap `json:"used,omitempty"` // those that belong to this backup; empty means all
}
