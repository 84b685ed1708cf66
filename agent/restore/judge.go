package restore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/api/node"
)

// Report is what precheck.py tells of the storage.
type Report struct {
	Error                string   `json:"error"`
	FQDN                 string   `json:"fqdn"` // this node's name in the backup
	DataDirectory        string   `json:"dataDirectory"`
	CommitlogDirectory   string   `json:"commitlogDirectory"`
	SavedCachesDirectory string   `json:"savedCachesDirectory"`
	HintsDirectory       string   `json:"hintsDirectory"` // empty for the usual one
	Backups              []string `json:"backups"`        // all names, the oldest first
	Nodes                []string `json:"nodes"`          // that have part in the wanted backup
	Complete             bool     `json:"complete"`
	TokenMap             []string `json:"tokenmap"` // the nodes of the backed-up datacenter
	ServerType           string   `json:"serverType"`
	ServerVersion        string   `json:"serverVersion"`
	Tables               []Table  `json:"tables"`
	// Contents is what was counted when the backup was made, where that is asked for.
	Contents *node.Contents `json:"contents"`
}

// Table is one section of a manifest.
type Table struct {
	Keyspace string           `json:"keyspace"`
	Name     string           `json:"table"` // with its id, as its directory
	Files    map[string]int64 `json:"files"` // sizes in bytes
}

// Size is the size of the node's backup in bytes.
func (r Report) Size() int64 {
	var size int64
	for _, table := range r.Tables {
		for _, bytes := range table.Files {
			size += bytes
		}
	}
	return size
}

func (r Report) count() int {
	count := 0
	for _, table := range r.Tables {
		count += len(table.Files)
	}
	return count
}

// reserve is the part of the backup's size, in percent, that has to stay free:
// a volume filled to the last block keeps the database from starting.
const reserve = 2

// needed is the room for a backup.
func needed(size int64) int64 { return size + size*reserve/100 }

// Judge tells why the backup cannot be restored here, or nil. free is the room
// on the data volume in bytes: Medusa downloads all before it removes what is
// there (medusa/download.py).
func Judge(r Report, backup string, free int64) error {
	switch size := r.Size(); {
	case r.Error != "":
		return fmt.Errorf("backup %s cannot be looked up: %s", backup, r.Error)
	case len(r.Nodes) == 0:
		return blame(node.CauseNoBackup, fmt.Errorf("there is no backup %s in the storage; %s", backup, known(r.Backups)))
	case !slices.Contains(r.Nodes, r.FQDN):
		return blame(node.CauseNoBackup, fmt.Errorf("backup %s has nothing of node %s, only of %s; annotation stategraft.io/restore-source, or spec.source.nodes of a Restore, names another node", backup, r.FQDN, few(r.Nodes)))
	case !r.Complete:
		return blame(node.CauseUnfinished, fmt.Errorf("backup %s of node %s is not complete: it was never finished", backup, r.FQDN))
	case !slices.Contains(r.TokenMap, r.FQDN):
		// Medusa would fail after it has replaced the data.
		return blame(node.CauseUnfinished, fmt.Errorf("backup %s does not know node %s by this name in its token map, only %s; the cluster's names did not resolve when it was made", backup, r.FQDN, few(r.TokenMap)))
	case r.count() == 0:
		return blame(node.CauseUnfinished, fmt.Errorf("backup %s of node %s is empty: it holds no file of any table", backup, r.FQDN))
	case free < needed(size):
		return fmt.Errorf("the data volume has too little room: backup %s needs %s besides what is there, %s are free", backup, human(needed(size)), human(free))
	}
	return nil
}

func known(names []string) string {
	if len(names) == 0 {
		return "there is none at all: check bucket_name and prefix in medusa.ini"
	}
	slices.Reverse(names) // the newest are of most interest
	return "the newest are " + few(names)
}

// few names some of many.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// human writes a number of bytes for people.
func human(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		value /= 1024
		if value < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
