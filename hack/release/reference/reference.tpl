{{- define "gvList" -}}
{{- range . -}}
{{ template "tables" . }}The kinds of `{{ .GroupVersionString }}`, with all of their fields:
{{ range .SortedTypes }}{{ if .GVK }}
- [{{ .Name }}](#{{ lower .Name }})
{{- end }}{{ end }}

{{ range .SortedTypes }}{{ if .GVK }}{{ template "type" . }}{{ end }}{{ end -}}

## What they consist of

{{ range .SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "type" -}}
{{- if markdownShouldRenderType . -}}
{{ if .GVK }}##{{ else }}###{{ end }} {{ .Name }}

{{ .Doc }}
{{- if .References }}

In: {{ range $i, $type := .SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $type }}{{ end }}.
{{- end }}
{{ if .Members }}
| Field | | Rules |
| --- | --- | --- |
{{- range .Members }}{{ if not (and $.GVK (eq .Name "metadata")) }}
| `{{ .Name }}`<br />{{ markdownRenderType .Type }} | {{ if eq .Name "metadata" }}Name, namespace, labels and annotations.{{ else }}{{ template "line" .Doc }}{{ end }} | {{ template "rules" . }} |
{{- end }}{{ end }}
{{ end }}{{ if .EnumValues }}
| Value | |
| --- | --- |
{{- range .EnumValues }}
| `{{ .Name }}` | {{ template "line" .Doc }} |
{{- end }}
{{ end }}
{{ end -}}
{{- end -}}

{{- /* Text as one line of a table. */ -}}
{{- define "line" }}{{ . | replace "\n" " " | replace "|" "\\|" | replace "{" "\\{" | replace "}" "\\}" }}{{ end -}}

{{- /* What the API server refuses, and what it fills in. */ -}}
{{- define "rules" -}}
{{- $rules := list -}}
{{- range .Validation -}}
{{- if hasPrefix "Required" . }}{{ $rules = prepend $rules "required" }}
{{- else if not (hasPrefix "Optional" .) }}{{ $rules = append $rules . }}{{ end -}}
{{- end -}}
{{- if .Default }}{{ $rules = append $rules (printf "default: `%s`" .Default) }}{{ end -}}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ $rules = append $rules .Message }}{{ end -}}
{{- range $i, $rule := $rules }}{{ if $i }}<br />{{ end }}{{ template "line" $rule }}{{ end -}}
{{- end -}}
