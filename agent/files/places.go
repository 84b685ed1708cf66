package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Places are the directories of an injected container. The webhook mounts them
// (patches/containers.go).
type Places struct {
	Shared  string // /stategraft: the agent's binary and state, all containers
	Medusa  string // /etc/medusa: the effective medusa.ini, read-only for Medusa
	User    string // /etc/stategraft/medusa: the user's medusa.ini
	Storage string // /etc/medusa-secrets: the storage credentials, Medusa only
	JMX     string // /etc/stategraft/jmx: username and password, snapshot server only
	GRPCTLS string // /etc/stategraft/grpc-tls: the gRPC service's pair, Medusa only
}

// Standard are the places in a pod, below root where that is not empty.
func Standard(root string) Places {
	return Places{
		Shared: root + "/stategraft", Medusa: root + "/etc/medusa", User: root + "/etc/stategraft/medusa",
		Storage: root + "/etc/medusa-secrets", JMX: root + "/etc/stategraft/jmx", GRPCTLS: root + "/etc/stategraft/grpc-tls",
	}
}

// Binary is where the other containers find the agent.
func (p Places) Binary() string { return filepath.Join(p.Shared, "bin", "stategraft-agent") }

// Segment is the file with the secret part of the snapshot server's path.
func (p Places) Segment() string { return filepath.Join(p.Shared, "run", "segment") }

// State is the file in which a part of the agent tells how it is.
func (p Places) State(part string) string { return filepath.Join(p.Shared, "run", part+".json") }

// Ini is the effective medusa.ini.
func (p Places) Ini() string { return filepath.Join(p.Medusa, "medusa.ini") }

// Yaml is the cassandra.yaml that stands in for one that cannot be shared.
func (p Places) Yaml() string { return filepath.Join(p.Medusa, "cassandra.yaml") }

// Credentials is the file of the storage Secret.
func (p Places) Credentials() string { return filepath.Join(p.Storage, "credentials") }

// Place copies the running program to path, in one step: a container that waits
// for it never sees half of it, and one that runs the old keeps it.
func Place(path string, owner Owner) error {
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read the agent's own binary: %w", err)
	}
	if err := MakeDir(filepath.Dir(path), 0o755, owner); err != nil {
		return err
	}
	return Write(path, content, 0o755, owner)
}

// segmentBytes make the path as hard to guess as a key.
const segmentBytes = 16

// MakeSegment makes the secret path segment, once in a pod's life.
func MakeSegment(path string, owner Owner) (string, error) {
	segment, err := ReadSegment(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errSegment) {
		return segment, err
	}
	if err := MakeDir(filepath.Dir(path), 0o755, owner); err != nil {
		return "", err
	}
	var random [segmentBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	segment = hex.EncodeToString(random[:])
	// Readable for the pod's one user only: on the host network the port is
	// everybody's on that node.
	return segment, Write(path, []byte(segment), 0o600, owner)
}

var errSegment = errors.New("not a path segment")

// ReadSegment reads what MakeSegment made.
func ReadSegment(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the snapshot server's path: %w", err)
	}
	segment := strings.TrimSpace(string(content))
	if raw, err := hex.DecodeString(segment); err != nil || len(raw) != segmentBytes {
		return "", fmt.Errorf("read the snapshot server's path from %s: %w", path, errSegment)
	}
	return segment, nil
}
