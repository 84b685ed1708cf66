package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stategraft/stategraft/agent/python"
	"github.com/stategraft/stategraft/api/node"
)

// ErrNone says that the backup tells no counts.
var ErrNone = errors.New("nothing was counted when this part of the backup was made")

// ErrKept says that the node's part of a backup is not removed.
var ErrKept = errors.New("the node's part of the backup is kept")

// Contents is what was counted of a node's part in a backup below a prefix; an empty one
// is that of medusa.ini. Where nothing was it is ErrNone.
func (c Config) Contents(ctx context.Context, prefix, name, of string) (node.Contents, error) {
	if err := part(name); err != nil {
		return node.Contents{}, err
	}
	if of == "" || strings.Contains(of, "/") {
		return node.Contents{}, fmt.Errorf("look into backup %s: %q is no name of a node", name, of)
	}
	var answer struct {
		Contents *node.Contents `json:"contents"`
		Error    string         `json:"error"`
	}
	err := c.ask(ctx, question{script: python.Contents, args: []string{prefix, name, of}}, &answer)
	switch {
	case err != nil:
		return node.Contents{}, fmt.Errorf("look into backup %s of node %s: %w", name, of, err)
	case answer.Error != "":
		return node.Contents{}, fmt.Errorf("look into backup %s of node %s: %s", name, of, c.Secrets.Hide(answer.Error))
	case answer.Contents == nil:
		return node.Contents{}, fmt.Errorf("backup %s of node %s: %w", name, of, ErrNone)
	}
	return *answer.Contents, nil
}

// Discard removes this node's part of a backup that is not complete, and nothing else;
// one that is not to go is ErrKept. That this node makes none is the caller's to see to.
// What was not done within the limit is done by asking again.
func (c Config) Discard(ctx context.Context, name string) (node.Discarded, error) {
	if err := part(name); err != nil {
		return node.Discarded{}, err
	}
	var answer struct {
		node.Discarded
		Kept  string `json:"kept"`
		Error string `json:"error"`
	}
	err := c.ask(ctx, question{script: python.Discard, args: []string{name}, asNode: true}, &answer)
	switch {
	case err != nil:
		return node.Discarded{}, fmt.Errorf("discard backup %s: %w", name, err)
	case answer.Kept != "":
		return node.Discarded{}, fmt.Errorf("backup %s: %w: %s", name, ErrKept, c.Secrets.Hide(answer.Kept))
	case answer.Error != "":
		return node.Discarded{}, fmt.Errorf("discard backup %s: %s", name, c.Secrets.Hide(answer.Error))
	}
	c.Log.Info("discarded the node's part of a backup", "backup", name, "node", answer.Node, "objects", answer.Objects)
	return answer.Discarded, nil
}

// part refuses what is no name of a backup.
func part(name string) error {
	if name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("look a backup up: %q is no name of one", name)
	}
	return nil
}
