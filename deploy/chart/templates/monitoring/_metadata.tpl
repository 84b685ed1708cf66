{{/*
The metadata of what is for monitoring, with labels by which Prometheus or Grafana
select it. Takes root, name, labels and, optionally, annotations; the given ones
go before those of all objects.
*/}}
{{- define "stategraft.monitoringMetadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "stategraft.selectorLabels" (dict "component" "monitoring") | nindent 2 }}
  {{- with omit (merge (dict) .labels .root.Values.commonLabels) "app.kubernetes.io/name" "app.kubernetes.io/component" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
