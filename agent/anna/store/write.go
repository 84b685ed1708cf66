package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
	"time"

	"filippo.io/age"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"gocloud.dev/blob"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/files"
)

// The size of an upload's parts and how many are sent at a time. S3 allows no smaller ones,
// and 10,000 in an object; its client holds the first 16 MB of an object beside them.
const (
	partSize  = 5 << 20
	partsSent = 2
)

// unsynced is how much of a pack is written to a directory, in bytes, before the system is
// asked to bring it to the disk: Commit waits for that, and has less to wait for.
const unsynced = 8 << 20

// Started is the mark that a part of a backup was begun.
type Started struct {
	Name    string    `json:"name"`
	Node    string    `json:"node"`
	Started time.Time `json:"started"`
	// Packs are those of earlier backups that it may use, or has: while it is
	// unfinished they are kept.
	Packs []string `json:"packs,omitempty"`
}

// Begin writes the mark: ErrExists where the part was begun before.
func (s *Store) Begin(ctx context.Context, m Started) error {
	if err := CheckNames(m.Name, m.Node); err != nil {
		return err
	}
	done, err := s.exists(ctx, s.manifestKey(m.Name, m.Node))
	if err != nil {
		return fmt.Errorf("begin backup %s of node %s: %w", m.Name, m.Node, err)
	}
	if done {
		return fmt.Errorf("backup %s of node %s: %w", m.Name, m.Node, ErrExists)
	}
	content, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("begin backup %s of node %s: %w", m.Name, m.Node, err)
	}
	return s.create(ctx, s.startedKey(m.Name, m.Node), append(content, '\n'))
}

// Commit writes the manifest, if there is none: ErrExists. The packs have to be there:
// one that is not is ErrDamaged.
func (s *Store) Commit(ctx context.Context, m manifest.Manifest) error {
	if err := CheckNames(m.Name, m.Node); err != nil {
		return err
	}
	there, err := s.Packs(ctx, m.Node)
	if err != nil {
		return err
	}
	for _, p := range m.Packs {
		if size, ok := there[p.Object]; !ok {
			return fmt.Errorf("%w: pack %s is not in the storage", ErrDamaged, p.Object)
		} else if size != p.Size {
			return fmt.Errorf("%w: pack %s has %d bytes, and %d were written", ErrDamaged, p.Object, size, p.Size)
		}
	}
	if s.config.Kind == Local {
		// A directory has no other promise that what it tells as there outlives a crash.
		if err := files.SyncVolume(s.config.directory()); err != nil {
			return err
		}
	}
	content, err := m.Encode()
	if err != nil {
		return err
	}
	return s.create(ctx, s.manifestKey(m.Name, m.Node), content)
}

// create writes an object that must not be there.
func (s *Store) create(ctx context.Context, key string, content []byte) error {
	exists, err := s.exists(ctx, key) // not every service minds the condition
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	if exists {
		return fmt.Errorf("%s: %w", key, ErrExists)
	}
	options := s.options(max(len(content)+1, partSize))
	options.ContentType, options.IfNotExist = "application/json", true
	for i := 0; ; i++ {
		err = s.bucket.WriteAll(ctx, key, content, options)
		switch {
		case err == nil:
			return nil
		case there(err):
			// The answer to our own write may have been lost, and it was tried again.
			if is, reading := s.bucket.ReadAll(ctx, key); reading == nil && bytes.Equal(is, content) {
				return nil
			}
			return fmt.Errorf("%s: %w", key, ErrExists)
		case conflicting(err) && i < tries:
			time.Sleep(pause)
		case unconditional(err) && options.IfNotExist:
			options.IfNotExist = false
		default:
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
}

func (s *Store) options(part int) *blob.WriterOptions {
	o := &blob.WriterOptions{ContentType: "application/octet-stream", BufferSize: part, MaxConcurrency: partsSent}
	if s.config.StorageClass != "" {
		o.BeforeWrite = func(as func(any) bool) error {
			var in *transfermanager.UploadObjectInput
			if as(&in) {
				in.StorageClass = tmtypes.StorageClass(s.config.StorageClass)
			}
			return nil
		}
	}
	return o
}

// PackWriter writes a pack's object: what pack.Writer writes goes into it.
type PackWriter struct {
	io.Writer
	name   string
	cancel context.CancelFunc
	to     *blob.Writer
	crypt  io.WriteCloser // nil where it is not encrypted
	sum    hash.Hash
	size   int64

	directory string // of a storage that is one
	unsynced  int64
	syncing   atomic.Bool
}

// CreatePack begins a pack of a backup; number is its own within that. The writer has to
// be ended by Close or Abort.
func (s *Store) CreatePack(ctx context.Context, name, node string, number int) (*PackWriter, error) {
	if err := CheckNames(name, node); err != nil {
		return nil, err
	}
	// The random part keeps two runs of the same backup from writing the same object.
	key := fmt.Sprintf("%s%s.%06d-%s", s.packsKey(node), name, number, rand.Text()[:8])
	ctx, cancel := context.WithCancel(ctx)
	to, err := s.bucket.NewWriter(ctx, key, s.options(partSize))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("write pack %s: %w", key, err)
	}
	w := &PackWriter{name: key, cancel: cancel, to: to, sum: sha256.New()}
	if s.config.Kind == Local {
		w.directory = s.config.directory()
	}
	w.Writer = stored{w}
	if s.Encrypted() {
		if w.crypt, err = age.Encrypt(stored{w}, s.recipients...); err != nil {
			w.Abort()
			return nil, fmt.Errorf("encrypt pack %s: %w", key, err)
		}
		w.Writer = w.crypt
	}
	return w, nil
}

// stored takes what goes into the object.
type stored struct{ w *PackWriter }

func (s stored) Write(b []byte) (int, error) {
	n, err := s.w.to.Write(b)
	s.w.sum.Write(b[:n])
	s.w.size += int64(n)
	s.w.sync(int64(n))
	if err != nil {
		err = fmt.Errorf("write pack %s: %w", s.w.name, err)
	}
	return n, err
}

// sync has what was written brought to the disk, in the background: Commit makes sure.
func (w *PackWriter) sync(written int64) {
	w.unsynced += written
	if w.directory == "" || w.unsynced < unsynced || !w.syncing.CompareAndSwap(false, true) {
		return
	}
	w.unsynced = 0
	go func() {
		defer w.syncing.Store(false)
		_ = files.SyncVolume(w.directory)
	}()
}

// Close ends it and tells of the object; records and their size are the caller's to add.
func (w *PackWriter) Close() (manifest.Pack, error) {
	defer w.cancel()
	if w.crypt != nil {
		if err := w.crypt.Close(); err != nil {
			w.Abort()
			return manifest.Pack{}, err
		}
	}
	if err := w.to.Close(); err != nil {
		return manifest.Pack{}, fmt.Errorf("write pack %s: %w", w.name, err)
	}
	return manifest.Pack{Object: w.name, Size: w.size, SHA256: hex.EncodeToString(w.sum.Sum(nil))}, nil
}

// Abort ends it without an object.
func (w *PackWriter) Abort() {
	w.cancel()
	if err := w.to.Close(); err == nil {
		// It was too late: Discard finds it.
		return
	}
}
