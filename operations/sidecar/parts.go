package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
)

// ErrNotDiscarded says that the node keeps its part of a backup: it is complete, or
// that node makes a backup right now.
var ErrNotDiscarded = errors.New("the node's part of the backup is kept")

// ErrNoContents says that nothing was counted when that part of the backup was made:
// by an agent from before, or by something else.
var ErrNoContents = errors.New("the backup tells no counts")

// Parts are the nodes' parts in backups.
type Parts interface {
	// Discard has a node remove its own part of a backup that is not complete, so that
	// one of the same name can be begun again. Where there is none it is done.
	Discard(ctx context.Context, pod *corev1.Pod, prefix, name string) error
	// Contents asks a pod what was counted of a node's part when that was made.
	Contents(ctx context.Context, pod *corev1.Pod, prefix, name, of string) (node.Contents, error)
}

var _ Parts = (*Client)(nil)

// Discard implements Parts. The prefix is the pod's own, or empty for that: a node of
// the same name below another is another's.
func (c *Client) Discard(ctx context.Context, pod *corev1.Pod, prefix, name string) error {
	var d node.Discarded
	err := c.ask(ctx, pod, question{
		method: http.MethodDelete, path: node.PathBackup, parameters: url.Values{"prefix": {prefix}, "name": {name}}, limit: lookupLimit, most: mostOfReport,
	}, &d)
	return as(err, http.StatusConflict, ErrNotDiscarded)
}

// Contents implements Parts. An empty prefix is the pod's own.
func (c *Client) Contents(ctx context.Context, pod *corev1.Pod, prefix, name, of string) (contents node.Contents, err error) {
	err = c.ask(ctx, pod, question{
		path: node.PathContents, parameters: url.Values{"prefix": {prefix}, "name": {name}, "node": {of}}, limit: lookupLimit, most: mostOfLookup,
	}, &contents)
	return contents, as(err, http.StatusNotFound, ErrNoContents)
}

// as gives an answer of a status the error that it means.
func as(err error, status int, meaning error) error {
	if answered := (*AnswerError)(nil); errors.As(err, &answered) && answered.Status == status {
		return fmt.Errorf("%w: %w", meaning, err)
	}
	return err
}
