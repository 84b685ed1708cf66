package adopt

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// How long what was read of a node and of a Secret is taken for true.
const (
	nodeFor = 30 * time.Second
	pairFor = 10 * time.Minute
)

// nodes are those that were read lately, and pairs the digests.
type (
	nodes map[string]readNode
	pairs map[string]readPair

	readNode struct {
		node *corev1.Node // nil where there is none
		at   time.Time
	}
	readPair struct {
		digest string
		at     time.Time
	}
)

// node reads a node, at most twice a minute; nil where there is none of the name.
func (c *controller) node(ctx context.Context, name string) (*corev1.Node, error) {
	if name == "" {
		return nil, nil
	}
	now := c.Clock()
	for other, read := range c.nodes {
		if now.Sub(read.at) >= min(nodeFor, c.Every*3) {
			delete(c.nodes, other)
		}
	}
	if read, ok := c.nodes[name]; ok {
		return read.node, nil
	}
	node, err := c.server.node(ctx, name)
	if apierrors.IsNotFound(err) {
		node, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.nodes[name] = readNode{node, now}
	return node, nil
}

// pair is the digest of a namespace's api.SecretGRPC, read every ten minutes: it is renewed
// long before it ends. Empty where it is not known, with an error where it may be there.
func (c *controller) pair(ctx context.Context, namespace string) (string, error) {
	now := c.Clock()
	for other, read := range c.pairs {
		if now.Sub(read.at) >= min(pairFor, c.Every*60) {
			delete(c.pairs, other)
		}
	}
	if read, ok := c.pairs[namespace]; ok {
		return read.digest, nil
	}
	digest, err := c.Pair(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "it is not known whether the certificates of adopted pods are those of now", "namespace", namespace)
		return "", err
	}
	if digest != "" { // what is not there yet comes soon
		c.pairs[namespace] = readPair{digest, now}
	}
	return digest, nil
}
