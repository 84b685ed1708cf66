package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
)

// Root is where backups are staged in a pod: on the emptyDir that its containers share.
func Root(places files.Places) string { return filepath.Join(places.Shared, "anna", "staged") }

// Command is the restore container. It reads its environment, does what that asks for,
// serves how far it is as long as it works, and leaves its outcome where kubelet reads
// it. It gives the exit status.
func Command(ctx context.Context, secrets *event.Secrets, log *slog.Logger) int {
	root := os.Getenv("STATEGRAFT_ROOT")
	text, done, err := command(ctx, root, secrets, log)
	message := filepath.Join(root, "/dev/termination-log")
	if err != nil {
		text := secrets.Hide(err.Error())
		log.Error(text)
		event.Terminate(message, node.Failure(text, CauseOf(err)))
		return 1
	}
	text = secrets.Hide(strings.ReplaceAll(text, "\n", " "))
	log.Info(text)
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + " …"
	}
	event.Terminate(message, node.Outcome(text, done))
	return 0
}

// longestText is of a termination message's first line, in bytes: kubelet keeps 4096 of
// the whole, and what was done is in its second.
const longestText = 1500

func command(ctx context.Context, root string, secrets *event.Secrets, log *slog.Logger) (string, node.Done, error) {
	places := files.Standard(root)
	secrets.Learn(places.Credentials())
	c := Config{
		ID:            os.Getenv("STATEGRAFT_RESTORE_ID"),
		Action:        os.Getenv("STATEGRAFT_RESTORE_ACTION"),
		Backup:        os.Getenv("STATEGRAFT_BACKUP"),
		Source:        os.Getenv("STATEGRAFT_RESTORE_SOURCE"),
		Undo:          os.Getenv("STATEGRAFT_RESTORE_UNDO"),
		Keep:          os.Getenv("STATEGRAFT_KEEP_PREVIOUS"),
		PodName:       os.Getenv("POD_NAME"),
		DataDirectory: os.Getenv("STATEGRAFT_DATA_DIRECTORY"),
		Root:          Root(places),
		Open: func(ctx context.Context) (Source, error) {
			return OpenStore(ctx, places, os.Getenv("STATEGRAFT_RESTORE_PREFIX"))
		},
		Log: log,
	}
	var err error
	if c.Identities, err = Identities(root + "/etc/stategraft/decryption"); err != nil {
		return "", node.Done{}, err
	}
	if subdomain := os.Getenv("STATEGRAFT_SUBDOMAIN"); subdomain != "" {
		suffix := "." + subdomain + "." + os.Getenv("POD_NAMESPACE") + ".svc"
		c.Gone = patient(GoneByDNS(net.DefaultResolver.LookupHost, suffix), appears, time.Second)
	}
	reporting, served := context.WithCancel(ctx)
	defer served()
	c.Tell = report(reporting, places, c, log)
	return Run(ctx, c)
}

// appears is how long a pod that was created together with this one may take to be seen
// in DNS.
const appears = 20 * time.Second

// patient asks again for some time before it takes a pod for gone. All pods together have
// that time.
func patient(gone func(context.Context, string) bool, patience, pause time.Duration) func(context.Context, string) bool {
	end := time.Now().Add(patience)
	return func(ctx context.Context, pod string) bool {
		for gone(ctx, pod) {
			if !time.Now().Before(end) {
				return true
			}
			select {
			case <-ctx.Done():
				return false
			case <-time.After(pause):
			}
		}
		return false
	}
}

// OpenStore opens the storage that the pod's medusa.ini names. A prefix that is not
// empty takes the place of its own.
func OpenStore(ctx context.Context, places files.Places, prefix string) (*store.Store, error) {
	c, err := StoreConfig(places)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		c.Prefix = prefix
	}
	return store.Open(ctx, c)
}

// StoreConfig is the storage that the pod's medusa.ini names.
func StoreConfig(places files.Places) (store.Config, error) {
	path := filepath.Join(places.User, "medusa.ini")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return store.Config{}, fmt.Errorf("there is no medusa.ini with the storage of the backups: the ConfigMap that annotation stategraft.io/medusa-config names has no key medusa.ini, or is not there: %w", err)
	}
	if err != nil {
		return store.Config{}, fmt.Errorf("read medusa.ini: %w", err)
	}
	file, err := ini.Parse(string(content))
	if err != nil {
		return store.Config{}, fmt.Errorf("medusa.ini cannot be read: %w", err)
	}
	return store.FromINI(file, store.Defaults{
		Prefix:      node.Prefix(os.Getenv("POD_NAMESPACE"), os.Getenv("STATEGRAFT_CLUSTER")),
		Credentials: places.Credentials(),
	})
}

// Identities reads the age identities in the files of a directory, where there is one.
func Identities(dir string) ([]age.Identity, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of encrypted backups: %w", err)
	}
	var all []age.Identity
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue // kubelet's own
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the keys of encrypted backups: %w", err)
		}
		found, err := age.ParseIdentities(bytes.NewReader(content))
		if err != nil {
			// The error of the package may hold a part of the key.
			return nil, fmt.Errorf("key %s of the Secret that annotation stategraft.io/decryption-secret names is no age identity (AGE-SECRET-KEY-1…, as age-keygen writes it)", entry.Name())
		}
		all = append(all, found...)
	}
	return all, nil
}

// report serves how far the restore is until the context ends, where the pod has a port
// for that, and gives the function that is to be told.
func report(ctx context.Context, places files.Places, c Config, log *slog.Logger) func(node.Progress) {
	var mutex sync.Mutex
	last := c.First()
	port, err := strconv.Atoi(os.Getenv("STATEGRAFT_NODE_PORT"))
	if err != nil || port == 0 {
		return func(node.Progress) {}
	}
	config := nodeserver.Config{Port: port, Log: log}
	if os.Getenv("STATEGRAFT_GRPC_TLS") != "off" {
		config.TLSDir = places.GRPCTLS
	}
	config.Report = func(context.Context) (node.Report, error) {
		r := node.Report{Node: os.Getenv("POD_NAME")}
		volume := places.Shared
		if c.DataDirectory != "" {
			volume = c.DataDirectory
		}
		// What cannot be told is left out: the restore says what is wrong.
		r.Size, r.Free, _ = files.Room(volume)
		r.Previous, _ = Previous(c.DataDirectory)
		if storage, err := StoreConfig(places); err == nil {
			r.Prefix = storage.Prefix
		}
		mutex.Lock()
		defer mutex.Unlock()
		now := last
		r.Restore = &now
		return r, nil
	}
	go nodeserver.Run(ctx, config)
	return func(p node.Progress) {
		mutex.Lock()
		defer mutex.Unlock()
		last = p
	}
}
