package workload

import (
	"encoding/json"
	"strings"
)

// The variables by which options reach the JVM of a Cassandra.
const (
	extraOpts = "JVM_EXTRA_OPTS"    // appended last by cassandra-env.sh
	jvmOpts   = "JVM_OPTS"          // what the start scripts begin with
	toolOpts  = "JAVA_TOOL_OPTIONS" // read by the JVM itself, whoever starts it
)

// toolOptsLimit is what a JVM of Java 8 takes of JAVA_TOOL_OPTIONS: of a longer
// one it reads nothing, and says nothing (hotspot src/share/vm/runtime/arguments.cpp,
// parse_options_environment_variable: a buffer of 1024).
const toolOptsLimit = 1023

// OptionsVariable names the variable to which options for the JVM of Cassandra in
// the container are appended, so that they reach it and nothing is replaced. text is
// what would be appended.
//
//	the container has                             | variable
//	image of instaclustr or Elassandra            | JVM_OPTS
//	JVM_EXTRA_OPTS in env                         | JVM_EXTRA_OPTS
//	envFrom                                       | JAVA_TOOL_OPTIONS, or JVM_OPTS
//	image of AxonOps, or one that is not known    | JAVA_TOOL_OPTIONS, or JVM_OPTS
//	another image of Cassandra, DSE or HCD        | JVM_EXTRA_OPTS
//
// JVM_EXTRA_OPTS is appended by the cassandra-env.sh of Cassandra 3.11 to 5.0, DSE
// and HCD, and handed on by k8ssandra's management API. The start scripts of the
// instaclustr and Elassandra images do not know it and begin with JVM_OPTS
// (instaclustr/cassandra-operator docker/cassandra/cassandra). AxonOps' images set
// JVM_EXTRA_OPTS themselves, to load their agent: a variable of the pod would
// replace it. What envFrom brings is not known here, and would be replaced alike.
// There the JVM's own variable is taken, unless it gets too long for Java 8: then
// JVM_OPTS, with which the scripts of Apache's begin (bin/cassandra).
func (c *Container) OptionsVariable(text string) string {
	image := parseImage(c.Image)
	switch {
	case image.within("cassandra-operator") || image.within("instaclustr") || hasWord(image.base, "elassandra"):
		return jvmOpts
	case c.declaresVariable(extraOpts):
		return extraOpts
	case len(c.EnvFrom) == 0 && !image.within("axonops") && (isServerImage(image.base) || image.within("google-samples") || image.within("bitnami")):
		return extraOpts
	case c.fits(toolOpts, text):
		return toolOpts
	}
	return jvmOpts
}

func (c *Container) declaresVariable(name string) bool {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return true
		}
	}
	return false
}

// fits tells whether the variable with the text appended, or as it is where that was
// done, is one that every JVM reads. What a value refers to may be of any length.
func (c *Container) fits(name, text string) bool {
	length := len(text)
	for i := range c.Env {
		v := &c.Env[i]
		switch {
		case v.Name != name:
		case strings.HasSuffix(v.Value, text):
			return true
		case v.from() || strings.Contains(v.Value, "$("):
			return false
		default:
			length = len(v.Value) + 1 + len(text)
		}
	}
	return length <= toolOptsLimit
}

// from tells whether the value comes from elsewhere.
func (v *EnvVar) from() bool { return len(v.ValueFrom) > 0 && v.ValueFrom.Kind() != 'n' }

// MayBeAbsent tells whether the variable comes from a key that need not be there:
// then the container may be started without it.
func (v *EnvVar) MayBeAbsent() bool {
	if v.Value != "" || !v.from() {
		return false
	}
	var from map[string]struct {
		Optional bool `json:"optional"`
	}
	if json.Unmarshal(v.ValueFrom, &from) != nil {
		return true // of a kind that is not known here
	}
	for _, reference := range from {
		if reference.Optional {
			return true
		}
	}
	return false
}
