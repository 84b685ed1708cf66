package webhook

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// logged keeps every line that is logged in this package's tests, by us and by
// controller-runtime, at the most talkative level.
var logged struct {
	sync.Mutex
	text bytes.Buffer
}

var logger = funcr.New(func(prefix, args string) {
	logged.Lock()
	defer logged.Unlock()
	logged.text.WriteString(prefix + " " + args + "\n")
}, funcr.Options{Verbosity: 10})

func TestMain(m *testing.M) {
	logf.SetLogger(logger)
	os.Exit(m.Run())
}

// What users keep in a pod is theirs: none of it may be logged, in no answer to
// no request, good or bad. Messages are logged, so they are told nothing either.
func TestSecretsAreNotLogged(t *testing.T) {
	const secret = "s3cr3t-do-not-log"
	env := func(value any) []byte {
		return withSpec(t, cassandraPod, func(spec map[string]any) {
			c := spec["containers"].([]any)[0].(map[string]any)
			c["env"] = []any{map[string]any{"name": "NODETOOL_PASSWORD", "value": value}}
			c["args"] = []any{"--password=" + secret}
		})
	}
	good := string(review(t, env(secret), admissionv1.Create))
	for what, body := range map[string]string{
		"good":                    good,
		"restore":                 string(review(t, annotated(t, env(secret), wantsRestore), admissionv1.Create)),
		"skipped":                 strings.ReplaceAll(good, "/var/lib/cassandra", "/elsewhere"),
		"update":                  string(review(t, env(secret), admissionv1.Update)),
		"cut off":                 good[:len(good)-20],
		"value in a list":         string(review(t, env([]any{secret}), admissionv1.Create)),
		"value in a mapping":      string(review(t, env(map[string]any{secret: secret}), admissionv1.Create)),
		"list for a port":         strings.Replace(good, `"containerPort":9042`, `"containerPort":"`+secret+`"`, 1),
		"key twice":               strings.Replace(good, `"NODETOOL_PASSWORD"`, `"x","`+secret+`":1,"`+secret+`":2`, 1),
		"secret as a key's value": strings.Replace(good, `"name":"NODETOOL_PASSWORD"`, `"name":{"`+secret+`":5}`, 1),
		"request of a wrong type": strings.Replace(good, `"operation":"CREATE"`, `"operation":{"`+secret+`":1}`, 1),
		"other object":            `{"apiVersion":"v1","kind":"Secret","data":{"x":"` + secret + `"}}`,
		"no JSON":                 secret,
		"no JSON after":           good + secret,
	} {
		for _, panics := range []bool{false, true} {
			h := testHandler(labelled())
			h.Log = logger
			if panics {
				h.Namespaces = broken{}
			}
			logged.Lock()
			logged.text.Reset()
			logged.Unlock()
			response, answer := serve(t, h, []byte(body))
			text := logged.text.String()
			if strings.Contains(text, secret) {
				at := strings.Index(text, secret)
				t.Errorf("%s: logged: …%s…", what, text[max(0, at-150):min(len(text), at+60)])
			}
			if text == "" && response.StatusCode == 200 {
				t.Errorf("%s: nothing is logged, so nothing is tested", what)
			}
			if answer == nil {
				continue
			}
			if told := answer.Result.Message + strings.Join(answer.Warnings, "\n"); strings.Contains(told, secret) {
				t.Errorf("%s: told: %s", what, told)
			}
		}
	}
}
