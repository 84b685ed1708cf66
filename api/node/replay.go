package node

import "time"

// PathReplay is where an Anna node's sidecar is asked, with POST and a ReplayRequest, to
// replay a backup into the running cluster. It answers Replay at once: 202 where it has
// begun or runs already, 409 where it replays another.
const PathReplay = "/v1/replay"

// The phases of a replay.
const (
	ReplayStaging   = "staging"   // the backup is fetched and verified
	ReplayWaiting   = "waiting"   // for the node, or for the rest of the cluster
	ReplayReplaying = "replaying" // keys are being written
	ReplayDone      = "done"
	ReplayFailed    = "failed" // what cannot become better by waiting
)

// ReplayRequest asks for a replay. Asked again with the same ID it is the same replay.
type ReplayRequest struct {
	ID     string `json:"id"`
	Backup string `json:"backup"`
	Prefix string `json:"prefix,omitempty"` // of the storage, where it is not the pod's own
	// Sources are the nodes of the backup whose parts this sidecar replays; none is
	// an answer too, and ends at once.
	Sources []string `json:"sources"`
}

// Replay is how far the keys of a backup have been written again.
type Replay struct {
	ID      string    `json:"id"`
	Backup  string    `json:"backup"`
	Phase   string    `json:"phase"`
	Keys    int64     `json:"keys"`            // that were answered as done
	Total   int64     `json:"total"`           // of the parts this sidecar replays
	Newer   int64     `json:"newer,omitempty"` // of Keys: where the cluster had a later value, which stayed
	Failed  int64     `json:"failed,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Message is what is waited for, or what failed; keys are named in it, ten at most.
	Message string `json:"message,omitempty"`
}

// Missing are the keys that a part of a backup of Anna lacks, though the node listed them.
type Missing struct {
	Count int64    `json:"count"`
	Keys  []string `json:"keys,omitempty"` // a hundred of them at most, quoted where they are not printable
}

// Config is what a sidecar knows of the configuration of its database.
type Config struct {
	Started string `json:"started"`           // digest of the files that the database was started with
	Current string `json:"current,omitempty"` // of the ConfigMap's now, where it is another
}
