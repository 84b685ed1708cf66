// Package lookup asks the storage which backups there are, with Medusa's own code
// in Medusa's image (agent/python/lookup.py). Medusa's gRPC service tells too little
// of them, and is not there while the database is not. Discard removes something.
package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/python"
	"github.com/stategraft/stategraft/api/node"
)

// NoPrefix asks for what is in the storage below no prefix at all, as Medusa reads
// it (medusa/storage/__init__.py: Path(config.prefix or '.')).
const NoPrefix = "."

// self is a node name that no node has. Medusa asks the DNS where the name is the
// container's own; which backups there are does not depend on it.
const self = "stategraft-lookup"

// Config is how the storage is asked.
type Config struct {
	Places  files.Places
	Private string                       // directory for what only this container reads
	Image   func() (medusa.Image, error) // where Medusa is
	Limit   time.Duration                // for one answer
	Secrets *event.Secrets
	Log     *slog.Logger
}

// Backups lists the backups below a prefix; an empty one is that of medusa.ini.
func (c Config) Backups(ctx context.Context, prefix string) (node.Backups, error) {
	var answer struct {
		node.Backups
		Error string `json:"error"`
	}
	if err := c.ask(ctx, question{script: python.Lookup, args: []string{prefix}}, &answer); err != nil {
		return node.Backups{}, fmt.Errorf("list the backups: %w", err)
	}
	if answer.Error != "" {
		return node.Backups{}, fmt.Errorf("list the backups: %s", c.Secrets.Hide(answer.Error))
	}
	return answer.Backups, nil
}

// Backup looks into one backup. One that is not there has no members.
func (c Config) Backup(ctx context.Context, prefix, name string) (node.Backup, error) {
	if err := part(name); err != nil {
		return node.Backup{}, err
	}
	var answer struct {
		node.Backup
		Error string `json:"error"`
	}
	if err := c.ask(ctx, question{script: python.Lookup, args: []string{prefix, name}}, &answer); err != nil {
		return node.Backup{}, fmt.Errorf("look backup %s up: %w", name, err)
	}
	if answer.Error != "" {
		return node.Backup{}, fmt.Errorf("look backup %s up: %s", name, c.Secrets.Hide(answer.Error))
	}
	return answer.Backup, nil
}

// question is what is run: a script, and the last of its arguments.
type question struct {
	script string
	args   []string
	asNode bool // by the name that the node has in its backups
}

func (c Config) ask(ctx context.Context, q question, answer any) error {
	image, err := c.Image()
	if err == nil && image.Python == "" {
		err = fmt.Errorf("%w with an interpreter", medusa.ErrNone)
	}
	if err != nil {
		return err
	}
	ini, err := medusa.Configure(c.Places, c.Private, "")
	if err != nil {
		return err
	}
	c.Secrets.Learn(c.Places.Credentials())
	out, err := os.MkdirTemp(c.Private, "lookup-*")
	if err != nil {
		return fmt.Errorf("make room for the answer: %w", err)
	}
	defer os.RemoveAll(out)
	path := filepath.Join(out, "answer.json")
	spec := image.Run(append([]string{"-c", q.script, ini, path}, q.args...)...)
	change := map[string]string{"BACKUP_NAME": "", "RESTORE_KEY": "", "MEDUSA_CQL_K8S_SECRETS_PATH": ""}
	if !q.asNode {
		change["POD_IP"] = self
	}
	spec.Env = image.Env(change)
	return c.run(ctx, spec, path, answer)
}

func (c Config) run(ctx context.Context, spec process.Spec, path string, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("no answer from the storage within %v", c.Limit))
	defer cancel()
	start := time.Now()
	tail := process.Tail{Size: 5}
	failed := process.Run(ctx, spec, func(line string) {
		line = c.Secrets.Hide(line)
		tail.Add(line)
		c.Log.Warn(line, "from", "lookup")
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed != nil {
		return fmt.Errorf("%w%s", failed, said(tail))
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, answer)
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w%s", err, said(tail))
	}
	c.Log.Info("the storage was asked", "seconds", time.Since(start).Seconds(), "bytes", len(content))
	return nil
}

// said is the last line of a program that gave no answer.
func said(tail process.Tail) string {
	if len(tail.Lines) == 0 {
		return ""
	}
	return ": " + tail.Lines[len(tail.Lines)-1]
}
