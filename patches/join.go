package patches

import (
	"fmt"
	"regexp"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// A node that gets the data of another has to join with that one's tokens, and
// without streaming, at every start until it has joined. Medusa writes both into
// cassandra.yaml, which is in the image or made anew at each start of most pods, so
// they are given to the JVM: -Dcassandra.initial_token and -Dcassandra.auto_bootstrap
// win over the file in Cassandra 3.11 to 5.0 (org.apache.cassandra.config
// DatabaseDescriptor.getInitialTokens and isAutoBootstrap; CassandraRelevantProperties).
// Unlike initial_token in the file, they are not compared with num_tokens, at the
// first start: at later ones Cassandra ends where it saved another number of tokens
// than num_tokens (StorageService, "Cannot change the number of tokens").

// joins tells whether the pod's node is to join with the tokens of the order.
func joins(o *api.Order) bool {
	return o.Mode == api.Remote && (o.Action == api.ActionRestore || o.Action == "")
}

// tokenPattern is a token of Murmur3Partitioner or RandomPartitioner. Others have
// spaces, and no text from a backup may get into the JVM's options.
var tokenPattern = regexp.MustCompile(`^-?[0-9]{1,40}$`)

// checkTokens tells why the node cannot join: started without its tokens, it would
// choose others, and none of its data would be found.
func checkTokens(o *api.Order) error {
	if len(o.Tokens) == 0 {
		return &Conflict{workload.ReasonCannotRestore, "it would join the cluster with tokens that are not those of its data: the Restore does not say which they are (status.pods[].tokens)"}
	}
	for _, token := range o.Tokens {
		if !tokenPattern.MatchString(token) {
			return &Conflict{workload.ReasonCannotRestore, fmt.Sprintf("%q is no token of Murmur3Partitioner or RandomPartitioner", workload.Short(token))}
		}
	}
	return nil
}

func joinOptions(tokens []string) string {
	return "-Dcassandra.initial_token=" + strings.Join(tokens, ",") + " -Dcassandra.auto_bootstrap=false"
}

// join appends the tokens to the options of the database's JVM, and of the init
// container that already starts it.
func (b *builder) join() {
	options := joinOptions(b.s.Order.Tokens)
	if at := b.w.Before; at >= 0 && at < len(b.pod.Spec.InitContainers) {
		b.appendOption(fmt.Sprintf("/spec/initContainers/%d/env", at), &b.pod.Spec.InitContainers[at], options)
	}
	if c := b.main(); c != nil {
		b.appendOption(fmt.Sprintf("/spec/containers/%d/env", b.w.Index), c, options)
	}
}

// appendOption appends a text to a variable of a container by one more entry at the
// end of its list. Of entries of one name the last one wins, and $(NAME) in it stands
// for the value of those before, even where that comes from envFrom or a Secret; one
// that was not set stays as it is written, which would be an argument that no JVM
// knows (k8s.io/kubernetes pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables;
// pkg/third_party/forked/golang/expansion). The API server takes such a list, and
// warns only where the last entry does not refer to the ones before (pkg/api/pod/warnings.go).
func (b *builder) appendOption(at string, c *workload.Container, text string) {
	name := c.OptionsVariable(text)
	first, last := -1, -1
	for i := range c.Env {
		if c.Env[i].Name == name {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if last < 0 {
		list(b, at, c.Env != nil, []EnvVar{value(name, text)})
		return
	}
	if v := c.Env[last].Value; v == text || strings.HasSuffix(v, " "+text) {
		return
	}
	if c.Env[first].MayBeAbsent() {
		// Something to refer to, where the key it comes from is not there.
		b.add(fmt.Sprintf("%s/%d", at, first), &EnvVar{Name: name})
	}
	list(b, at, true, []EnvVar{value(name, "$("+name+") "+text)})
}
