package restore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// What Config.Keep may be.
const (
	keepAlways = "Always"
	keepIfRoom = "IfRoom"
	keepNever  = "Never"
)

// The data from before are kept by hard links: hardly any of a table's files is written
// again once it is there (links tells which), and Medusa, as well as undo and empty, puts new files
// in their place. Nor are segments of the commit log: the restore takes their names
// away, and Cassandra replays and removes what it finds there, it does not write to
// it (it recycled segments before 3.0). That costs no room at once, but that of the
// old data for as long as they are kept. What is on another volume than the data volume, such as a
// commit log of its own, is copied: nothing can be left there that neither Medusa
// nor the database touches.

// survey is what keeping the present data would take.
type survey struct {
	old    int64 // bytes of all files
	copies int64 // bytes of those that have to be copied
	linked map[string]bool
	// replaced are the tables' directories, below the data directory, that are taken
	// away as a whole; nil for all.
	replaced map[string]bool
	// impossible says why it cannot be done at all.
	impossible error
}

// links tells whether a file is kept by a second name. What stays in use must not
// share a file with what is kept where Cassandra writes into it: it adds to a table of
// contents (TOCComponent.appendTOC) and to a transaction's log, and writes a filter
// anew over the old one (SSTableReader.loadBloomFilter, when bloom_filter_fp_chance has
// changed). The other components it replaces by another file (MetadataSerializer,
// rewriteSSTableMetadata), or never changes.
func (s survey) links(part, path string) bool {
	if !s.linked[part] || part != partData || s.replaced == nil {
		return s.linked[part]
	}
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 3 {
		return false
	}
	return s.replaced[parts[0]+"/"+parts[1]] || strings.HasSuffix(path, ".db") && !strings.HasSuffix(path, "-Filter.db")
}

// survey looks, and tries one link in each place.
func (c Config) survey(l layout, replaced map[string]bool) survey {
	s := survey{linked: map[string]bool{}, replaced: replaced}
	for i, at := range l {
		tried := false
		err := l.walk(at, func(found item) error {
			switch {
			case found.info.IsDir():
				return nil
			case !found.info.Mode().IsRegular():
				return fmt.Errorf("%s is neither a file nor a directory", filepath.Join(at.Path, found.path))
			}
			if !tried {
				tried = true
				err := c.tryLink(filepath.Join(at.Path, found.path))
				s.linked[at.Part] = err == nil
				if err != nil && i == 0 {
					return fmt.Errorf("its files cannot have a second name: %w", err)
				}
			}
			s.old += found.info.Size()
			if !s.links(at.Part, found.path) {
				s.copies += found.info.Size()
			}
			return nil
		})
		if err != nil && s.impossible == nil {
			s.impossible = fmt.Errorf("the %s directory cannot be kept: %w", at.Part, err)
		}
	}
	return s
}

// link is os.Link, but where a test has a file system without links.
var link = os.Link

func (c Config) tryLink(path string) error {
	probe := filepath.Join(Dir(c.DataMount), "link-"+rand.Text())
	err := link(path, probe)
	if err == nil {
		err = os.Remove(probe)
	}
	var reason *os.LinkError
	if errors.As(err, &reason) {
		err = reason.Err // the random name helps nobody
	}
	return err
}

// room is what there is and what is needed, in bytes.
type room struct {
	size, free int64 // of the data volume
	add        int64 // to be written yet: a download, and what a node that starts empty is sent
	older      int64 // given back when the restore is done: data that were kept before
}

// free of a tenth is what is left to the database where nobody asked for more.
const tenth = 10

// decide tells whether the present data are to be kept. The note says why not,
// where that was left open; the error, where it was not.
func decide(mode string, s survey, r room) (keep bool, note string, err error) {
	if mode == keepNever {
		return false, "", nil
	}
	after := r.free - r.add - s.copies
	why := ""
	switch {
	case s.impossible != nil:
		why = s.impossible.Error()
	case mode == keepAlways && after < r.add*reserve/100:
		why = fmt.Sprintf("the volume has too little room: %s are needed besides, %s are free", human(r.add+r.add*reserve/100+s.copies), human(r.free))
	case mode == keepIfRoom && after+r.older < r.size/tenth:
		why = fmt.Sprintf("%s of %s would be free after it, less than a tenth", human(max(0, after+r.older)), human(r.size))
	default:
		return true, "", nil
	}
	if mode == keepAlways {
		return false, "", fmt.Errorf("the data from before cannot be kept, and keepPrevious is Always: %s", why)
	}
	return false, "the data from before are not kept: " + why, nil
}

// The file that says that all of a directory is there, and the list of it.
const (
	sealName = "previous.json"
	listName = "files.json"
)

func previousDir(mount string) string { return filepath.Join(Dir(mount), "previous") }

// seal is written when all is set aside.
type seal struct {
	ID     string    `json:"id"`
	Since  time.Time `json:"since"`
	Layout layout    `json:"layout"`
	Mount  string    `json:"mount"` // of the data volume, at that time
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
}

// entry is a file or directory that was set aside, below its part.
type entry struct {
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode"`
	Size int64       `json:"size,omitempty"` // of a file
}

// setAside keeps the present data, durably. Before it is sealed it is rubbish.
func (c Config) setAside(ctx context.Context, l layout, s survey) (*Kept, error) {
	since := time.Now().UTC().Truncate(time.Second)
	kept := &Kept{ID: c.id(), Dir: safe(c.id()) + "-" + strings.ToLower(rand.Text()[:8]), Since: since, Mode: c.Keep}
	dir := filepath.Join(previousDir(c.DataMount), kept.Dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep the data from before: %w", err)
	}
	list := map[string][]entry{}
	sealed := seal{ID: kept.ID, Since: since, Layout: l, Mount: c.DataMount}
	for _, at := range l {
		part := filepath.Join(dir, at.Part)
		if err := os.Mkdir(part, 0o755); err != nil {
			return nil, fmt.Errorf("keep the data from before: %w", err)
		}
		err := l.walk(at, func(found item) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			step("link")
			e := entry{Path: found.path, Mode: found.info.Mode()}
			to := filepath.Join(part, found.path)
			switch {
			case found.info.IsDir():
				list[at.Part] = append(list[at.Part], e)
				return os.Mkdir(to, 0o700|e.Mode.Perm())
			case !e.Mode.IsRegular():
				return fmt.Errorf("%s is neither a file nor a directory", found.path)
			}
			e.Size = found.info.Size()
			list[at.Part] = append(list[at.Part], e)
			sealed.Files++
			sealed.Bytes += e.Size
			return put(filepath.Join(at.Path, found.path), to, s.links(at.Part, found.path))
		})
		if err != nil {
			return nil, fmt.Errorf("keep the data from before: %w", err)
		}
	}
	text, err := json.Marshal(list) // not indented: there may be a million files
	if err != nil {
		return nil, fmt.Errorf("keep the data from before: %w", err)
	}
	if err := files.Write(filepath.Join(dir, listName), text, 0o644, files.Owner{}); err != nil {
		return nil, err
	}
	if err := files.SyncVolume(dir); err != nil {
		return nil, err
	}
	step("seal")
	return kept, files.WriteJSON(filepath.Join(dir, sealName), sealed, 0o644, files.Owner{})
}

// put gives a file a second name, or copies it.
func put(from, to string, linked bool) error {
	if linked {
		return link(from, to)
	}
	return duplicate(from, to)
}

// safe makes a name for a directory of an id.
func safe(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '-'
	}, id)
	return strings.TrimLeft(name[:min(len(name), 100)], ".")
}

// crossing tells of an error that it is one of two volumes, or of a file system
// without links.
func crossing(err error) bool {
	for _, e := range []error{syscall.EXDEV, syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS, syscall.EMLINK, syscall.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
