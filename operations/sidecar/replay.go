package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
)

// ErrReplaying says that the node replays something else at the moment: ask again.
var ErrReplaying = errors.New("the node replays something else")

// Replays has nodes of Anna write the keys of a backup again.
type Replays interface {
	// Replay asks for it, and gives how far it is. Asked again for the same ID it is
	// the same replay.
	Replay(ctx context.Context, pod *corev1.Pod, request node.ReplayRequest) (node.Replay, error)
}

var _ Replays = (*Client)(nil)

// Replay implements Replays.
func (c *Client) Replay(ctx context.Context, pod *corev1.Pod, request node.ReplayRequest) (r node.Replay, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return r, fmt.Errorf("write a request: %w", err)
	}
	err = c.ask(ctx, pod, question{method: http.MethodPost, path: node.PathReplay, body: body, limit: reportLimit, most: mostOfReport}, &r)
	return r, as(err, http.StatusConflict, ErrReplaying)
}
