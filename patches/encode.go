package patches

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The encoding of the types of this package, written out. It is several times
// as fast as reflection over them, and encoding the additions is most of what
// is left of an admission after decoding the pod. TestMarshal compares it with
// encoding/json.

// object writes the members of a JSON object.
type object struct {
	text []byte
	open bool // a member has been written
}

func (o *object) begin() { o.text = append(o.text, '{'); o.open = false }
func (o *object) end()   { o.text = append(o.text, '}'); o.open = true }

func (o *object) name(name string) {
	if o.open {
		o.text = append(o.text, ',')
	}
	o.open = true
	o.text = append(o.text, '"')
	o.text = append(o.text, name...) // a constant that needs no escaping
	o.text = append(o.text, '"', ':')
}

// quote writes a string. jsontext replaces what is not UTF-8, as encoding/json
// does; the error it reports for that is of no interest here.
func (o *object) quote(text string) {
	o.text, _ = jsontext.AppendQuote(o.text, text)
}

func (o *object) str(name, text string) {
	o.name(name)
	o.quote(text)
}

func (o *object) optional(name, text string) {
	if text != "" {
		o.str(name, text)
	}
}

func (o *object) number(name string, n int64) {
	o.name(name)
	o.text = strconv.AppendInt(o.text, n, 10)
}

func (o *object) boolean(name string, value bool) {
	o.name(name)
	o.text = strconv.AppendBool(o.text, value)
}

func (o *object) strings(name string, list []string) {
	o.name(name)
	o.text = append(o.text, '[')
	for i, text := range list {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		o.quote(text)
	}
	o.text = append(o.text, ']')
}

// list writes an array of objects, unless it is empty.
func encodeList[T any](o *object, name string, list []T, each func(*object, *T) error) error {
	if len(list) == 0 {
		return nil
	}
	o.name(name)
	o.text = append(o.text, '[')
	for i := range list {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		o.begin()
		if err := each(o, &list[i]); err != nil {
			return err
		}
		o.end()
	}
	o.text = append(o.text, ']')
	return nil
}

func (o *object) container(c *Container) error {
	o.str("name", c.Name)
	o.str("image", c.Image)
	o.str("imagePullPolicy", c.ImagePullPolicy)
	o.strings("command", c.Command)
	if err := encodeList(o, "env", c.Env, (*object).env); err != nil {
		return err
	}
	if err := encodeList(o, "ports", c.Ports, (*object).port); err != nil {
		return err
	}
	o.name("resources")
	o.begin()
	o.amounts("requests", c.Resources.Requests)
	o.amounts("limits", c.Resources.Limits)
	o.end()
	o.optional("restartPolicy", c.RestartPolicy)
	if err := o.security(c.SecurityContext); err != nil {
		return err
	}
	o.optional("terminationMessagePolicy", c.TerminationMessagePolicy)
	return encodeList(o, "volumeMounts", c.VolumeMounts, (*object).mount)
}

func (o *object) env(v *EnvVar) error {
	o.str("name", v.Name)
	o.optional("value", v.Value)
	if v.ValueFrom == nil {
		return nil
	}
	o.name("valueFrom")
	if source, ok := v.ValueFrom.(*FieldSource); ok {
		o.begin()
		o.name("fieldRef")
		o.begin()
		o.str("fieldPath", source.FieldRef.FieldPath)
		o.end()
		o.end()
		return nil
	}
	return o.any(v.ValueFrom)
}

func (o *object) port(p *Port) error {
	o.optional("name", p.Name)
	o.number("containerPort", int64(p.ContainerPort))
	if p.HostPort != 0 {
		o.number("hostPort", int64(p.HostPort))
	}
	o.str("protocol", p.Protocol)
	return nil
}

func (o *object) mount(m *VolumeMount) error {
	o.str("name", m.Name)
	o.str("mountPath", m.MountPath)
	if m.ReadOnly {
		o.boolean("readOnly", true)
	}
	o.optional("subPath", m.SubPath)
	o.optional("subPathExpr", m.SubPathExpr)
	return nil
}

func (o *object) amounts(name string, a Amounts) {
	if a == (Amounts{}) {
		return
	}
	o.name(name)
	o.begin()
	o.optional("cpu", a.CPU)
	o.optional("memory", a.Memory)
	o.optional("ephemeral-storage", a.EphemeralStorage)
	o.end()
}

func (o *object) security(s *SecurityContext) error {
	o.name("securityContext")
	o.begin()
	o.number("runAsUser", s.RunAsUser)
	o.number("runAsGroup", s.RunAsGroup)
	o.boolean("runAsNonRoot", s.RunAsNonRoot)
	o.boolean("allowPrivilegeEscalation", s.AllowPrivilegeEscalation)
	o.boolean("readOnlyRootFilesystem", s.ReadOnlyRootFilesystem)
	o.name("capabilities")
	o.begin()
	if len(s.Capabilities.Add) > 0 {
		o.strings("add", s.Capabilities.Add)
	}
	o.strings("drop", s.Capabilities.Drop)
	o.end()
	o.name("seccompProfile")
	o.begin()
	o.str("type", s.SeccompProfile.Type)
	o.end()
	if s.SELinuxOptions != nil {
		o.name("seLinuxOptions")
		if err := o.any(s.SELinuxOptions); err != nil {
			return err
		}
	}
	o.end()
	return nil
}

func (o *object) volume(v *Volume) error {
	o.str("name", v.Name)
	switch {
	case v.EmptyDir != nil:
		o.name("emptyDir")
		o.begin()
		o.end()
	case v.ConfigMap != nil:
		o.name("configMap")
		o.begin()
		o.str("name", v.ConfigMap.Name)
		o.boolean("optional", v.ConfigMap.Optional)
		o.end()
	case v.Secret != nil:
		o.name("secret")
		o.begin()
		o.str("secretName", v.Secret.SecretName)
		o.boolean("optional", v.Secret.Optional)
		o.end()
	case v.DownwardAPI != nil:
		o.name("downwardAPI")
		return o.any(v.DownwardAPI)
	}
	return nil
}
