package replay

import (
	"context"
	"errors"

	"github.com/stategraft/stategraft/agent/anna/client"
)

// group is how many keys are looked up together: fewer goroutines that wait, and fewer
// writes to the network. Each is a lookup of its own.
const group = 64

// answer is one to a lookup.
type answer struct {
	owners []string
	err    error
}

// asynchronous is what *client.Client has besides.
type asynchronous interface {
	OwnersAsync(ctx context.Context, key string) (*client.Lookup, error)
}

// ask looks keys up, and passes the answers on as they come, in the order of the keys:
// from the first-th on.
func ask(ctx context.Context, c Client, items []*item, pass func(first int, answers []answer)) {
	fast, ok := c.(asynchronous)
	if !ok {
		for i, it := range items {
			go func() { pass(i, []answer{checked(c.Owners(ctx, it.Key))}) }()
		}
		return
	}
	lookups := make([]*client.Lookup, len(items))
	failed := make([]error, len(items))
	for i, it := range items {
		lookups[i], failed[i] = fast.OwnersAsync(ctx, it.Key)
	}
	first := 0
	var answers []answer
	for i, l := range lookups {
		if failed[i] == nil && len(answers) > 0 && !done(l) {
			pass(first, answers)
			first, answers = i, nil
		}
		a := answer{err: failed[i]}
		if a.err == nil {
			a = checked(l.Wait(ctx))
		}
		answers = append(answers, a)
	}
	pass(first, answers)
}

func done(l *client.Lookup) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

var errNoOwner = errors.New("routing names no owner")

func checked(owners []string, err error) answer {
	if err == nil && len(owners) == 0 {
		err = errNoOwner
	}
	return answer{owners, err}
}
