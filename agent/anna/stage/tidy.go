package stage

import (
	"fmt"
	"log/slog"

	"github.com/stategraft/stategraft/agent/files"
)

// tightPart says when a volume is tight: where less than this part of it is free.
const tightPart = 20

// Tidy removes the data of the disk tier from before a restore, which are kept below a data
// directory: all, or only those that are kept as long as there is room, of volumes that have
// none left. What an undo or a restore has half done stays for its next run.
func Tidy(data string, all bool, log *slog.Logger) error {
	found, err := places(data)
	if err != nil {
		return err
	}
	for _, p := range found {
		if err := p.tidy(all, log); err != nil {
			return fmt.Errorf("remove the disk tier's data from before a restore: %w", err)
		}
	}
	return nil
}

func (p place) tidy(all bool, log *slog.Logger) error {
	m, err := p.read()
	if err != nil || m.Undoing != "" {
		return err
	}
	if !all {
		if size, free, err := files.Room(p.root); err != nil || free >= size/tightPart {
			return err
		}
	}
	changed := false
	for i := range m.Done {
		k := &m.Done[i]
		if !k.Kept || !all && !k.ForRoom {
			continue
		}
		k.Kept, changed = false, true
		log.Info("the data from before a restore are removed", "restore", k.ID, "since", k.Since, "bytes", k.Bytes)
	}
	if !changed {
		return nil
	}
	// First the marker: nobody is to go back to what is half gone.
	if err := p.write(m); err != nil {
		return err
	}
	return p.prune(m)
}
