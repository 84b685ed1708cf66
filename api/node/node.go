// Package node holds what the containers of a pod tell the controllers: the
// messages of a small HTTP service beside the sidecar's gRPC, with the same mutual
// TLS. Medusa's own service knows nothing of the volume, forgets what it did when it
// is restarted, and is not there while the database is not.
package node

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// DefaultPort is the service's, where it is free in the pod.
const DefaultPort = 50061

// PortName is the name of the container port.
const PortName = "stategraft-node"

// Paths of the service. All are read with GET and answer JSON, or an Error with the
// status of it. DELETE of PathBackup discards this node's part of a backup that is
// not complete, and answers Discarded: 409 where it runs or is complete.
const (
	PathReport   = "/v1/node"     // Report
	PathBackups  = "/v1/backups"  // Backups; parameter prefix
	PathBackup   = "/v1/backup"   // Backup; parameters name and prefix
	PathContents = "/v1/contents" // Contents; parameters name, prefix and node; 404 where the backup has none
)

// Error is the body of an answer that is not 200.
type Error struct {
	Message string `json:"error"`
}

// Report is what a pod tells of itself.
type Report struct {
	Node   string `json:"node"`   // its name in backups; empty while it is not known
	Prefix string `json:"prefix"` // of the effective medusa.ini

	// The data volume, in bytes.
	Size int64 `json:"size"`
	Free int64 `json:"free"`

	Done     []Done     `json:"done,omitempty"`     // restores that this volume remembers
	Previous []Previous `json:"previous,omitempty"` // data that are kept
	Restore  *Progress  `json:"restore,omitempty"`  // in the restore container only

	// BackupRunning tells that Medusa makes a backup, from when it was asked for one
	// to the end of that; Backup tells which.
	BackupRunning bool     `json:"backupRunning,omitempty"`
	Backup        *Running `json:"backup,omitempty"`
	Waiting       string   `json:"waiting,omitempty"` // what Medusa waits for

	// Failed are its backups that have failed, the latest first. Of Medusa it is the last
	// one, until another begins.
	Failed []Failed `json:"failed,omitempty"`

	// Busy, Replay and Config are of Anna's nodes. Busy is what else the node is at, such
	// as a replay, while it refuses backups; the text is for people.
	Busy   string  `json:"busy,omitempty"`
	Replay *Replay `json:"replay,omitempty"` // the last one of this pod
	Config *Config `json:"config,omitempty"`
}

// Done is a restore that was done on a volume.
type Done struct {
	ID       string    `json:"id"` // RestoreStatus.ID; backup[@source] for one that the template asked for
	Action   string    `json:"action,omitempty"`
	Backup   string    `json:"backup,omitempty"`
	Source   string    `json:"source,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Bytes    int64     `json:"bytes,omitempty"`
	Tables   int       `json:"tables,omitempty"`
	Previous bool      `json:"previous,omitempty"` // the data from before were kept
	// Runs is how often the data began to be replaced: more than once where it was
	// interrupted.
	Runs int `json:"runs,omitempty"`
}

// Previous are data that a restore has set aside.
type Previous struct {
	ID    string    `json:"id"` // of the restore that replaced them
	Since time.Time `json:"since"`
	Bytes int64     `json:"bytes"` // of the files that nothing else uses any more; may be 0 when not known
}

// The phases of a restore container. Until Replacing the data are what they were.
const (
	LookingUp   = "looking-up"
	Downloading = "downloading"
	Replacing   = "replacing"
	Verifying   = "verifying"
	Finished    = "finished"
)

// Progress is how far a restore container is.
type Progress struct {
	ID         string    `json:"id"`
	Phase      string    `json:"phase"`
	Bytes      int64     `json:"bytes"`
	BytesTotal int64     `json:"bytesTotal"`
	Started    time.Time `json:"started"`
	// Message is what is waited for where nothing moves, with the last that Medusa said;
	// empty while it goes on. No secret is in it.
	Message string `json:"message,omitempty"`
}

// Backups are the backups below a prefix of the storage, the oldest first. The
// names only, and what the index knows; Backup looks into one.
type Backups struct {
	Prefix  string    `json:"prefix"`
	Backups []Summary `json:"backups"`
}

// Summary is a backup in a list.
type Summary struct {
	Name     string    `json:"name"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"` // of the last node; zero where one has not
	Nodes    []string  `json:"nodes"`             // that have part in it
	Complete bool      `json:"complete"`          // every node of its token map has finished
}

// Backup is what the storage holds of one backup.
type Backup struct {
	Summary
	Prefix  string          `json:"prefix"`
	Members []Member        `json:"members"` // by name
	Ring    map[string]Ring `json:"ring"`    // the nodes of the token map, of the backed-up datacenter
}

// Member is a node's part in a backup.
type Member struct {
	Node     string    `json:"node"`
	Complete bool      `json:"complete"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Bytes    int64     `json:"bytes"`
	Objects  int       `json:"objects"`
	Tables   int       `json:"tables"`
	Version  string    `json:"version,omitempty"` // of the database
	Type     string    `json:"type,omitempty"`    // differential or full
	Keys     int64     `json:"keys,omitempty"`    // of Anna
	Missing  *Missing  `json:"missing,omitempty"` // of Anna: such a part is complete, and a backup with it Partial
}

// Ring is a node's place in the ring.
type Ring struct {
	Tokens     []string `json:"tokens"`
	Datacenter string   `json:"datacenter,omitempty"`
	Rack       string   `json:"rack,omitempty"`
}

// Member finds a node's part.
func (b *Backup) Member(node string) (Member, bool) {
	for _, m := range b.Members {
		if m.Node == node {
			return m, true
		}
	}
	return Member{}, false
}

// ErrNoOutcome says that a termination message has no outcome in it.
var ErrNoOutcome = errors.New("the message holds no outcome of a restore")

// Outcome is the termination message of a restore container that ended well: a line
// for people, and what was done in a second.
func Outcome(text string, done Done) string {
	line, err := json.Marshal(done)
	if err != nil {
		panic("encoding an outcome: " + err.Error()) // only a year beyond 9999 does that
	}
	return text + "\n" + string(line)
}

// ParseOutcome reads what Outcome wrote.
func ParseOutcome(message string) (text string, done Done, err error) {
	text, line, ok := strings.Cut(strings.TrimRight(message, "\n"), "\n")
	if !ok {
		return text, done, ErrNoOutcome
	}
	if err := json.Unmarshal([]byte(line), &done); err != nil || done.ID == "" {
		return text, done, ErrNoOutcome
	}
	return text, done, nil
}
