%while true do end
%template = {summary = "never gets here", role = "conv", device = "cpu"}
int nothing;
