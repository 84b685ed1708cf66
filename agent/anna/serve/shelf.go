package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/api/node"
)

// storage is what is needed of *store.Store.
type storage interface {
	stage.Source
	Backups(ctx context.Context) ([]store.Entry, error)
	Manifest(ctx context.Context, name, node string) (manifest.Manifest, error)
	Delete(ctx context.Context, name string, nodes ...string) (int, error)
	Discard(ctx context.Context, name, node string) (int, error)
	Close() error
}

// opener opens a storage.
type opener func(ctx context.Context, c store.Config) (storage, error)

// noPrefix asks for what is in the storage below no prefix at all (agent/lookup.NoPrefix).
const noPrefix = "."

// shelf is the storage. Its configuration and credentials are mounted, and may change or
// come to be at any time.
type shelf struct {
	Config
	open opener

	mutex  sync.Mutex
	looked time.Time
	sum    [sha256.Size]byte
	config store.Config
	why    error // why there is no configuration
	opened map[string]*lent
}

// lent is a storage that is open below a prefix.
type lent struct {
	storage
	users int
	old   bool // closed by its last user
}

func newShelf(c Config) *shelf {
	s := &shelf{Config: c, open: c.open, opened: map[string]*lent{}}
	if s.open == nil {
		s.open = func(ctx context.Context, c store.Config) (storage, error) { return store.Open(ctx, c) }
	}
	return s
}

// lookAgain is how often the files are read at most.
const lookAgain = 2 * time.Second

// current is the configuration as it is mounted now.
func (s *shelf) current() (store.Config, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.look()
}

func (s *shelf) look() (store.Config, error) {
	if !s.looked.IsZero() && time.Since(s.looked) < lookAgain {
		return s.config, s.why
	}
	s.looked = time.Now()
	text, err := os.ReadFile(filepath.Join(s.Places.User, "medusa.ini"))
	credentials, _ := os.ReadFile(s.Places.Credentials()) // none is right too
	sum := sha256.Sum256(append(append(text, 0), credentials...))
	if err == nil && sum == s.sum {
		return s.config, s.why
	}
	s.sum = sum
	s.Secrets.Learn(s.Places.Credentials())
	s.dropAll()
	before := s.why
	s.config, s.why = s.read(text, err)
	switch {
	case s.why != nil && before != nil && s.why.Error() == before.Error(): // what is waited for is told once
	case s.why != nil:
		s.Log.Warn("degraded: no backups: the storage's configuration cannot be used", "error", s.Secrets.Hide(s.why.Error()))
	default:
		s.Log.Info("the storage's configuration is there", "kind", s.config.Kind, "bucket", s.config.Bucket, "prefix", s.config.Prefix, "encrypted", len(s.config.Recipients) > 0)
	}
	return s.config, s.why
}

func (s *shelf) read(text []byte, err error) (store.Config, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return store.Config{}, errors.New("waiting for the ConfigMap with medusa.ini, at least [storage]: annotation stategraft.io/medusa-config names it, and it is seen here within two minutes")
	}
	if err != nil {
		return store.Config{}, fmt.Errorf("read medusa.ini: %w", err)
	}
	file, err := ini.Parse(string(text))
	if err != nil {
		return store.Config{}, fmt.Errorf("medusa.ini cannot be read: %w", err)
	}
	return store.FromINI(file, store.Defaults{Prefix: node.Prefix(s.Pod.Namespace, s.Pod.Cluster), Credentials: s.Places.Credentials()})
}

// prefix is the node's own; empty while it is not known.
func (s *shelf) prefix() string {
	c, err := s.current()
	if err != nil {
		return ""
	}
	return c.Prefix
}

// own tells whether a prefix of a question is the node's own.
func (s *shelf) own(prefix string) bool {
	return prefix == "" || s.under(prefix) == s.prefix()
}

// under is a prefix as questions write it.
func (s *shelf) under(prefix string) string {
	switch prefix {
	case "":
		return s.prefix()
	case noPrefix:
		return ""
	}
	return prefix
}

// mostOpen is how many prefixes are kept open.
const mostOpen = 4

// borrow gives the storage below a prefix; done is called when it is not used any more.
func (s *shelf) borrow(ctx context.Context, prefix string) (_ storage, done func(), err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c, err := s.look()
	if err != nil {
		return nil, nil, err
	}
	if prefix == noPrefix {
		c.Prefix = ""
	} else if prefix != "" {
		c.Prefix = prefix
	}
	l := s.opened[c.Prefix]
	if l == nil {
		opened, err := s.open(ctx, c)
		if err != nil {
			return nil, nil, fmt.Errorf("open the storage: %w", err)
		}
		if len(s.opened) >= mostOpen {
			s.dropAll()
		}
		l = &lent{storage: opened}
		s.opened[c.Prefix] = l
	}
	l.users++
	return l.storage, sync.OnceFunc(func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if l.users--; l.old && l.users == 0 {
			_ = l.Close()
		}
	}), nil
}

// dropAll has those that are open closed by their last users.
func (s *shelf) dropAll() {
	for prefix, l := range s.opened {
		delete(s.opened, prefix)
		if l.old = true; l.users == 0 {
			_ = l.Close()
		}
	}
}
