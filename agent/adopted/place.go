package adopted

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
)

// Content is a variable, and where below the root its value goes.
type Content struct{ Env, Path string }

// Contents are the variables that hold what injected containers read from files
// (patches.Contents).
func Contents() []Content {
	p := files.Standard("")
	const cql, config = "/etc/stategraft/cql", "/etc/stategraft/config"
	return []Content{
		{"STATEGRAFT_FILE_INI", p.User + "/medusa.ini"},
		{"STATEGRAFT_FILE_CREDENTIALS", p.Credentials()},
		{"STATEGRAFT_FILE_CQL_USERNAME", cql + "/username"},
		{"STATEGRAFT_FILE_CQL_PASSWORD", cql + "/password"},
		{"STATEGRAFT_FILE_JMX_USERNAME", p.JMX + "/username"},
		{"STATEGRAFT_FILE_JMX_PASSWORD", p.JMX + "/password"},
		{"STATEGRAFT_FILE_TLS_CRT", p.GRPCTLS + "/tls.crt"},
		{"STATEGRAFT_FILE_TLS_KEY", p.GRPCTLS + "/tls.key"},
		{"STATEGRAFT_FILE_TLS_CA", p.GRPCTLS + "/ca.crt"},
		{"STATEGRAFT_FILE_ANNA", config + "/anna-config.yml"},
	}
}

// Place writes what the variables hold to files below root, which only this user reads,
// and takes the variables out of the environment, so that no program that is started has
// them. What is secret in the files, as they are then, is hidden from the log: a program
// that Bound has started again has no variables any more, and calls Place for that.
//
// The path of the snapshot server, which the containers of an injected pod share on a
// volume, is here made of the pod's UID: nothing outside of the cluster knows it either.
//
// What goes wrong with one file does not keep the others from being placed.
func Place(root string, secrets *event.Secrets) error {
	var problems []error
	for _, c := range Contents() {
		if value, ok := os.LookupEnv(c.Env); ok {
			if err := place(root+c.Path, value); err != nil {
				problems = append(problems, err)
				secrets.Add(value)
			}
			if err := os.Unsetenv(c.Env); err != nil {
				problems = append(problems, fmt.Errorf("take %s out of the environment: %w", c.Env, err))
			}
		}
		learn(root+c.Path, secrets)
	}
	// Where the effective medusa.ini goes.
	if err := files.MakeDir(files.Standard(root).Medusa, 0o700, files.Owner{}); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(append(problems, placeSegment(root))...)
}

func place(path, value string) error {
	if err := files.MakeDir(filepath.Dir(path), 0o700, files.Owner{}); err != nil {
		return err
	}
	return files.Write(path, []byte(value), 0o600, files.Owner{})
}

// learn hides what is secret in a file.
func learn(path string, secrets *event.Secrets) {
	switch filepath.Base(path) {
	case "password", "credentials":
		secrets.Learn(path)
	case "tls.key":
		if key, err := os.ReadFile(path); err == nil {
			secrets.Add(strings.TrimSpace(string(key)))
		}
	}
}

// placeSegment writes the secret part of the snapshot server's path, which is the pod's
// UID. A container that knows no UID needs none.
func placeSegment(root string) error {
	uid := os.Getenv("POD_UID")
	if uid == "" {
		return nil
	}
	segment := strings.ToLower(strings.ReplaceAll(uid, "-", ""))
	if _, err := hex.DecodeString(segment); err != nil || len(segment) != 32 {
		return fmt.Errorf("POD_UID is %q, and not a UID of 32 hexadecimal digits", uid)
	}
	path := files.Standard(root).Segment()
	had, err := os.ReadFile(path)
	if err == nil && string(had) == segment {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the snapshot server's path: %w", err)
	}
	return place(path, segment)
}
