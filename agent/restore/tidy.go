package restore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// Half tells whether the data are half replaced, as far as the volume's marker
// knows.
func Half(mount string) bool {
	m, err := ReadMarker(mount)
	return err == nil && m.Doing != nil
}

// Tidy removes all data that are kept from before, once the database has run for
// long. Where it runs on what an interrupted restore has left, these are its data now,
// and no longer half replaced. A restore that runs keeps it from doing so, and a
// marker that cannot be read.
func Tidy(mount string, log *slog.Logger) error {
	return tidy(mount, log, func(m Marker) Marker {
		m.Kept = nil
		if m.Outcome == Applying {
			m = m.forgotten()
		}
		m.Doing = nil
		return m
	})
}

// TidyForRoom removes what was kept only because there was room, but not where
// nothing else is whole.
func TidyForRoom(mount string, log *slog.Logger) error {
	return tidy(mount, log, func(m Marker) Marker {
		if m.Kept != nil && m.Kept.Mode == keepIfRoom {
			m.Kept = nil
		}
		return m
	})
}

func tidy(mount string, log *slog.Logger, after func(Marker) Marker) error {
	if entries, err := os.ReadDir(previousDir(mount)); !Half(mount) && (errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0) {
		return nil
	}
	c := Config{DataMount: mount, Log: log}
	lock, err := c.lock()
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.Close()
	}
	m, err := ReadMarker(mount)
	if err != nil {
		return err
	}
	then := after(m)
	// First the marker: nobody is to go back to what is half gone.
	if err := then.write(mount); err != nil {
		return err
	}
	for _, k := range m.kept() {
		if !then.names(k.Dir) {
			log.Info("the data from before a restore are removed", "restore", k.ID, "since", k.Since, "bytes", k.Bytes)
		}
	}
	return c.prune(then)
}

// adopted is what is kept of a volume whose marker is gone, as one that could not be
// read has to be removed: the newest that is sealed.
func adopted(mount string) *Kept {
	entries, err := os.ReadDir(previousDir(mount))
	if err != nil {
		return nil
	}
	var newest *Kept
	for _, entry := range entries {
		k := &Kept{Dir: entry.Name(), Mode: keepAlways}
		s, err := readSeal(mount, k)
		if err != nil {
			continue
		}
		k.ID, k.Since, k.Bytes = s.ID, s.Since.UTC().Truncate(time.Second), s.Bytes
		if newest == nil || k.Since.After(newest.Since) {
			newest = k
		}
	}
	return newest
}
