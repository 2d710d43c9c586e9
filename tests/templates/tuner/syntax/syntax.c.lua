%template = {
%  summary = "a comma is missing"
%  role = "conv",
%}
int nothing;
